"""FSDP2 with compressed gradients."""
