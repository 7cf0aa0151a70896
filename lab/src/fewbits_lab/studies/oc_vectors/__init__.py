"""Optimal compression, several small vectors in one spherical frame."""
