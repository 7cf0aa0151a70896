"""Vector to bytes and back, with the sizes: the ten lines of the README."""

import numpy as np

import fewbits

x = np.random.default_rng(0).standard_normal((1000, 1000), dtype=np.float32)
frame = fewbits.compress(x, "natural", seed=7)
y = fewbits.decompress(frame)
assert (y.shape, y.dtype) == (x.shape, x.dtype)

error = np.sum((y - x) ** 2, dtype=np.float64) / np.sum(x**2, dtype=np.float64)
print(f"{x.nbytes:,} bytes became {len(frame):,}")
print(f"relative squared error {error:.4f}")
print(fewbits.inspect(frame))
