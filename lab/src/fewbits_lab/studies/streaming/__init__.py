"""Fragments that are exchanged one after the other, against whole models at once."""
