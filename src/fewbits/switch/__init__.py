"""In-network aggregation: its protocol, a worker, an aggregator and the sum over all ranks."""
