"""Natural compression, Figures 16 to 18."""
