"""Lossless coding of integer codes to bytes and back."""
