"""Arithmetic on flat arrays: `reference` is the specification in NumPy, `native` gives the same bits fast."""
