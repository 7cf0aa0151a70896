"""Rows of signs times a scale: the reference, with native coding."""

from fewbits.backend import coders
from fewbits.backend.kernel import Row, Written
from fewbits.reference import sign
from fewbits.reference.tally import Tally


def encode(row: Row) -> Written:
    """Scales, then signs."""
    block, format = int(row.kernel.numbers[0]), row.format
    scales, codes, nonfinite = sign.encode(row.values.array(format.bits), format, block)
    first, second = (section.array() for section in row.sections)
    sizes = coders.write_floats(scales, first), coders.write_coded(codes, sign.BOUND, second)
    return Written(Tally(0, nonfinite), sizes)


def decode(row: Row) -> Tally:
    """Values of the signs."""
    block, format = int(row.kernel.numbers[0]), row.format
    out = row.values.array(format.bits)
    first, second = (section.array() for section in row.sections)
    scales, codes = (
        coders.read_floats(first, format),
        coders.read_coded(second, sign.BOUND, out.size),
    )
    return Tally(0, sign.decode(scales, codes, format, block, out))
