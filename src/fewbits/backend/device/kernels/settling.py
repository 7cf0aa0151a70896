"""What all rows of a run have met, added up on the device."""

from fewbits.backend.device.kernels.rows import BAD, NONFINITE, SATURATED, TALLIES, pointer
from fewbits.backend.device.language import tl, triton

_SATURATED, _NONFINITE = tl.constexpr(SATURATED), tl.constexpr(NONFINITE)
_TALLIES, _BAD = tl.constexpr(TALLIES), tl.constexpr(BAD)


@triton.jit
def settle(tally, counted, rows, counts, BLOCK: tl.constexpr):
    """Add the rows' tallies to `counts`, and clear them for the next run.

    `counts` are saturated and non-finite values of the rows that are `counted`, bad rows, and the
    first bad row and one more, at an address of the caller's.
    """
    counts = pointer(counts, tl.int64, False)
    lane = tl.arange(0, BLOCK)
    saturated = tl.zeros((BLOCK,), tl.int64)
    nonfinite = tl.zeros((BLOCK,), tl.int64)
    bad = tl.zeros((BLOCK,), tl.int64)
    first = tl.zeros((BLOCK,), tl.int64) + rows
    for start in range(0, rows, BLOCK):
        row = start + lane
        inside = row < rows
        own = tally + row * _TALLIES
        counts_too = tl.load(counted + row, mask=inside, other=0) != 0
        saturated += tl.load(own + _SATURATED, mask=inside & counts_too, other=0)
        nonfinite += tl.load(own + _NONFINITE, mask=inside & counts_too, other=0)
        is_bad = tl.load(own + _BAD, mask=inside, other=0) != 0
        bad += is_bad.to(tl.int64)
        first = tl.minimum(first, tl.where(is_bad, row, rows).to(tl.int64))
        for number in tl.static_range(_TALLIES):
            tl.store(own + number, tl.zeros((BLOCK,), tl.int64), mask=inside)
    tl.store(counts, tl.load(counts) + tl.sum(saturated, axis=0))
    tl.store(counts + 1, tl.load(counts + 1) + tl.sum(nonfinite, axis=0))
    tl.store(counts + 2, tl.load(counts + 2) + tl.sum(bad, axis=0))
    known = tl.load(counts + 3)
    least = tl.min(first, axis=0)
    tl.store(counts + 3, tl.where((known == 0) & (least < rows), least + 1, known))
