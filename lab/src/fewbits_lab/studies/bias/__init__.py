"""The error that is left in the mean of many draws."""
