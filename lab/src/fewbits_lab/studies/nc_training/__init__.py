"""Training with and without compression, as in the paper's experiments, on a smaller scale."""
