"""A real Flower federation on this machine, with bytes counted on the way to every node."""
