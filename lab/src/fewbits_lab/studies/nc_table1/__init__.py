"""Natural compression, Table 1."""
