"""Lossless coding of natural compression's exponents, means."""
