"""Error feedback: a sixth of a bit a value."""
