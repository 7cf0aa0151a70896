"""The server's part: the grid, its messages, and the checks of replies."""
