"""Every theorem of both papers on bytes."""
