"""Natural compression, Table 8."""
