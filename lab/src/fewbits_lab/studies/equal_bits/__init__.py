"""Unbiased operators at EDEN's bits."""
