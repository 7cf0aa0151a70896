"""Arithmetic on flat arrays: `reference` specifies it in NumPy, `native` gives the same bits."""
