"""What the host knows of each kind of row: which kernel runs it, on which blocks, or why none."""
