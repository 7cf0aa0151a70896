"""The types that operators are made of."""
