"""Methods by operator on workers that have little in common."""
