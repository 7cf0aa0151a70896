"""Natural compression, Table 7."""
