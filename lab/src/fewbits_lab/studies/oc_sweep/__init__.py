"""Optimal compression, sweeps of ν and ω."""
