"""Optimal compression, spherical compression."""
