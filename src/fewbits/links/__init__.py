"""The only users of torch.distributed and of sockets."""
