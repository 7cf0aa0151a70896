"""The operators, one file each; the registry finds them, nothing is listed by hand."""
