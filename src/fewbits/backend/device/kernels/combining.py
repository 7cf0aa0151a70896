"""Sums of two vectors of float32, each with a factor."""

from fewbits.backend.device.kernels.powers import canonical
from fewbits.backend.device.kernels.rows import left_of, own_number, section_of, share, values_of
from fewbits.backend.device.language import tl, triton


@triton.jit
def combine_terms(
    work, rows, keys, tally, BLOCK: tl.constexpr, ALIGNED: tl.constexpr, TAILS: tl.constexpr
):
    """Write a x + b y, each operation rounded; either vector may lie where the values do."""
    row, block = share(work)
    start = block.to(tl.int64) * BLOCK
    left = left_of(rows, row, start, BLOCK, TAILS)
    values = values_of(rows, row, tl.uint32, ALIGNED) + start
    first = section_of(rows, row, 0, tl.float32, ALIGNED) + start
    second = section_of(rows, row, 1, tl.float32, ALIGNED) + start
    a = own_number(rows, row, 0).to(tl.float64, bitcast=True).to(tl.float32)
    b = own_number(rows, row, 1).to(tl.float64, bitcast=True).to(tl.float32)
    place = tl.arange(0, BLOCK)
    if TAILS:
        inside = place < left
        x = tl.load(first + place, mask=inside, other=0)
        y = tl.load(second + place, mask=inside, other=0)
        tl.store(values + place, canonical(a * x + b * y), mask=inside)
    else:
        total = a * tl.load(first + place) + b * tl.load(second + place)
        tl.store(values + place, canonical(total))
