"""A Flower federation on the wire."""
