"""Protocols between ranks over a `Comm` that average compressed vectors."""
