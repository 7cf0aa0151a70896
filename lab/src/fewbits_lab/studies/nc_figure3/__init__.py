"""Natural compression, Figure 3."""
