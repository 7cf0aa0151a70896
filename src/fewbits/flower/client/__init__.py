"""The client's part: the mod, its state and its replies."""
