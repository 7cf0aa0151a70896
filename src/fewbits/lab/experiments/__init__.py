"""One file for each table or figure, each with an `EXPERIMENT`."""
