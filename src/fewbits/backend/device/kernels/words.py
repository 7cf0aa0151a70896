"""Random words by their index, as `fewbits.rng` specifies them."""

from fewbits.backend.device.language import tl, triton


@triton.jit
def mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def stream(keys, row, high):
    """The two keys in force for the words whose index has the high half `high`."""
    step = high.to(tl.uint32) * 0x9E3779B1
    key_0 = tl.load(keys + row * 4).to(tl.uint32, bitcast=True)
    key_1 = tl.load(keys + row * 4 + 1).to(tl.uint32, bitcast=True)
    key_2 = tl.load(keys + row * 4 + 2).to(tl.uint32, bitcast=True)
    key_3 = tl.load(keys + row * 4 + 3).to(tl.uint32, bitcast=True)
    return key_0 + mix(step + key_2), key_1 + mix(step + key_3)


@triton.jit
def words(low, key_0, key_1):
    """The words whose index has the low half `low`, unsigned 32-bit numbers."""
    x = low * 0x9E3779B1 + key_0
    x = (x ^ (x >> 16)) * 0x7FEB352D + key_1
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)
