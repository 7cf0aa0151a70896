"""FedAvg on MNIST, ten clients that have little in common."""
