"""What operators are made of."""
