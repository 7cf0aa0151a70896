"""Device kernels without a device: compiled, looked at, and executed in NumPy."""
