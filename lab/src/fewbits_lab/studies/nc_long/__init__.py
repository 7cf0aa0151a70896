"""Training on all of the data, long enough for an interval below a point."""
