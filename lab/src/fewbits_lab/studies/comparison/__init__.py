"""Compressors compared."""
