"""Optimal compression, spherical compression in blocks."""
