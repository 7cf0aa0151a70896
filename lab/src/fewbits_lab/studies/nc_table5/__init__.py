"""Natural compression, Table 5."""
