"""Optimal compression, lower bounds."""
