"""Gradients of real models: recorded while they train, read again, and looked at."""
