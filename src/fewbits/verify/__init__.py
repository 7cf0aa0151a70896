"""Whether a device gives the bytes of the CPU: kernels, checksums, ranks, damage, speed, memory."""
