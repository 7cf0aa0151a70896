"""Natural compression summed in the network."""
