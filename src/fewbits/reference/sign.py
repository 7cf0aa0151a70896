"""Signs times a scale: the specification of the sign operator."""

import numpy as np
import numpy.typing as npt

from fewbits.errors import DecodeError
from fewbits.reference import dithering
from fewbits.reference.blocks import Blocks
from fewbits.reference.dithering import BAD_SCALE, LEVEL_WITHOUT_SCALE, SIGN_ON_NAN
from fewbits.reference.formats import Bits, Format

NAN = 2  # the code of a value that is not finite
BOUND = 3


def encode(bits: Bits, format: Format, block: int) -> tuple[Bits, npt.NDArray[np.int32], int]:
    """The scales of the blocks, the codes, and how many values are not finite."""
    magnitude, nonfinite = dithering.magnitudes(bits, format)
    scales = dithering.means(bits, format, block)
    negative = (bits & format.bits.type(format.sign)) != 0
    signs = (magnitude != 0) * np.where(negative, np.int32(-1), np.int32(1))
    return scales, np.where(nonfinite, np.int32(NAN), signs), int(nonfinite.sum())


def decode(
    scales: Bits, codes: npt.NDArray[np.int32], format: Format, block: int, out: Bits
) -> int:
    """The values of codes; returns how many are not finite."""
    if (scales >= format.infinity).any():
        raise DecodeError(BAD_SCALE)
    if (codes == -NAN).any():
        raise DecodeError(SIGN_ON_NAN)
    scale = Blocks.of(out.size, block).spread(scales, slice(0, out.size))
    given, nonfinite = np.abs(codes) == 1, codes == NAN
    if ((scale == 0) & given).any():
        raise DecodeError(LEVEL_WITHOUT_SCALE)
    out[:] = np.where(given, scale, 0)
    out[codes == -1] |= format.bits.type(format.sign)
    out[nonfinite] = format.quiet_nan
    return int(nonfinite.sum())
