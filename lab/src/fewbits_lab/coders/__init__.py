"""Entropy coders compared: on what, how, and who takes part."""
