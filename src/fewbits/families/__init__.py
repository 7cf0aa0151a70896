"""Families: code that several operators share. The registry does not look here."""
