"""Optimal compression, bounds of sparse dithering."""
