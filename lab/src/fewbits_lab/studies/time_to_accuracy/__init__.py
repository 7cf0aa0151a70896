"""Seconds until the goal."""
