"""Optimal compression, both figures."""
