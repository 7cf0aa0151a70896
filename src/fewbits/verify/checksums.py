"""Checksums of a device against the CPU's."""

from typing import Any

import numpy as np

from fewbits.backend.buffers import CPU
from fewbits.verify.places import DevicePlaces

CHECKSUM_SIZES = (0, 1, 3, 4, 15, 16, 17, 255, 256, 4095, 4096, 4097, 65_536, 70_001)


def compared(device: DevicePlaces) -> dict[str, Any]:
    """CRC-32C of messages of many sizes; a message that was sealed, and one that was changed."""
    host, wrong = DevicePlaces(CPU), []
    random = np.random.default_rng(32)
    for size in CHECKSUM_SIZES:
        data = random.integers(0, 256, size, np.uint8)
        expected, got = (own.backend.crc32c(own.filled(data)) for own in (host, device))
        if expected != got:
            wrong.append(f"crc32c of {size} bytes is {got:#010x}, the CPU has {expected:#010x}")
    message = random.integers(0, 256, 1000, np.uint8)
    sealed = []
    for places in (host, device):
        own = places.filled(message)
        places.backend.seal(own)
        sealed.append(places.read(own))
    if not np.array_equal(sealed[0], sealed[1]):
        wrong.append("a sealed message differs from the CPU's")
    changed = sealed[0].copy()
    changed[500] ^= 1
    if not device.backend.judge(device.filled(sealed[0])):
        wrong.append("the CPU's checksum is refused")
    if device.backend.judge(device.filled(changed)):
        wrong.append("a changed bit was not seen")
    return {"held": not wrong, "compared": len(CHECKSUM_SIZES) + 3, "differences": wrong}
