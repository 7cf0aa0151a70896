"""Accuracy with natural compression both ways."""
