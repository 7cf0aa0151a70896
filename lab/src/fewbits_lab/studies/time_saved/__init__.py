"""Time saved against the share of communication."""
