"""Recorded gradients: entropy by layer and step."""
