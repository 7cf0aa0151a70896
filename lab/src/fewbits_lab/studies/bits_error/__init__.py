"""Bits against error: operators, baselines and the lower bound."""
