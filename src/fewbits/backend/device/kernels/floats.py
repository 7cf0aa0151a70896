"""Numbers of the float formats, as bits: formats are told by `EXPONENT` and `MANTISSA` widths."""

from fewbits.backend.device.language import tl, triton


@triton.jit
def wide(bits, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr):
    """Exact float32 values of magnitudes given as unsigned 32-bit numbers."""
    if MANTISSA == 23:
        return bits.to(tl.float32, bitcast=True)
    elif MANTISSA == 7:
        return (bits << 16).to(tl.float32, bitcast=True)
    else:
        return bits.to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def narrow(values, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr):
    """Bits of the nearest numbers of the format, ties to even, of magnitudes in float32."""
    if MANTISSA == 23:
        return values.to(tl.uint32, bitcast=True)
    elif MANTISSA == 7:
        bits = values.to(tl.uint32, bitcast=True)
        return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    else:
        return values.to(tl.float16).to(tl.uint16, bitcast=True).to(tl.uint32)


@triton.jit
def narrow_double(values, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr):
    """The same of finite magnitudes in float64, rounded once; too large ones become infinity.

    Whole numbers alone: not every device rounds float64 to 16 bits in one step.
    """
    BIAS: tl.constexpr = (1 << (EXPONENT - 1)) - 1
    bits = values.to(tl.uint64, bitcast=True)
    exponent = (bits >> 52).to(tl.int32) - 1023
    lowest = tl.maximum(tl.minimum(exponent, BIAS), 1 - BIAS)
    shift = tl.minimum(52 - MANTISSA + tl.maximum(lowest - exponent, 0), 63).to(tl.uint64)
    whole = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
    one = tl.full([1], 1, tl.uint64)
    rest = whole & ((one << shift) - 1)
    half = one << (shift - 1)
    kept = (whole >> shift).to(tl.uint32)
    up = (rest > half) | ((rest == half) & ((kept & 1) != 0))
    found = ((lowest + (BIAS - 1)).to(tl.uint32) << MANTISSA) + kept + up.to(tl.uint32)
    return tl.where(exponent > BIAS, ((1 << EXPONENT) - 1) << MANTISSA, found)


@triton.jit
def level_value(scale, level, LEVELS: tl.constexpr):
    """A uniform level's value in float64, before it is rounded to the format."""
    return scale * (level.to(tl.float64) / tl.full([1, 1], LEVELS, tl.float64))
