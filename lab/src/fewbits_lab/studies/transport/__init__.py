"""Seconds of an exchange."""
