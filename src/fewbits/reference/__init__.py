"""The NumPy specification of every kernel."""
