"""What sends and receives for us: over torch.distributed, and over sockets."""
