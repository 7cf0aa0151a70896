"""Keys in frames: for operators and stages whose draws the decoder repeats."""

import numpy as np
import numpy.typing as npt

from fewbits.rng import KEY_BYTES, Rng
from fewbits.wire.sections import Packed


def key_section() -> Packed:
    """The section of a stream's key."""
    return Packed("key", KEY_BYTES, width=8, bound=256)


def write_key(rng: Rng, into: npt.NDArray[np.uint8]) -> None:
    """Send the stream itself: nothing that must stay private may be drawn from it."""
    into[:] = np.frombuffer(rng.key, np.uint8)


def read_key(data: npt.NDArray[np.uint8]) -> Rng:
    """The stream that was sent; every key is one."""
    return Rng(data.tobytes())
