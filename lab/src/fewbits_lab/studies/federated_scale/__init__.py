"""FedAvg with 10 to 10,000 simulated clients."""
