"""Speed of every codec against memcpy."""
