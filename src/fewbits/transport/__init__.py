"""Moves bytes between ranks: over torch.distributed and over sockets."""
