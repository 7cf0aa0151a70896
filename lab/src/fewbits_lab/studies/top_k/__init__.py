"""Selecting the largest magnitudes."""
