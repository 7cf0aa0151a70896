"""Peers in the same run."""
