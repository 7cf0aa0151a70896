"""Speed of every operator on every dtype, and of calls on few values."""
