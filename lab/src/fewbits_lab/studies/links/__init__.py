"""Seconds a step, the median."""
