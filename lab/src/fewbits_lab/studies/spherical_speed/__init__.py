"""Spherical compression: bits over the bound, and the native search."""
