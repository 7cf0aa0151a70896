"""Division of a vector by a number, rounded once to its format."""

import numpy as np

from fewbits.reference import casts
from fewbits.reference.blocks import pieces
from fewbits.reference.formats import BFLOAT16, FLOAT64, Bits, Format


def divided(bits: Bits, format: Format, by: float) -> Bits:
    """The values over `by`, at least 1, as float64 rounds it and then the format, ties to even.

    NaN and the infinities keep their bits.
    """
    result = bits.copy()
    if by == 1:
        return result
    top = bits.dtype.type(format.infinity)
    for part in pieces(bits.size):
        own = bits[part]
        with np.errstate(all="ignore"):
            quotients = casts.to_float64(own, format) / by
            if format == BFLOAT16:
                narrow = casts.cast(quotients.view(np.uint64), FLOAT64, format)[0]
            else:
                narrow = quotients.astype(format.name).view(format.bits)
        result[part] = np.where((own & top) == top, own, narrow)
    return result
