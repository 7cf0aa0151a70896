"""Optimal compression, regressions with real frames."""
