"""The uncertainty principle, measured."""
