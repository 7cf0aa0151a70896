"""Triton kernels, one file a kind: plain functions whose flags are known when they are compiled."""
