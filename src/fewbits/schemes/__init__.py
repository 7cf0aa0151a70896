"""Protocols between ranks over a `Comm`: how compressed vectors become one mean on every rank."""
