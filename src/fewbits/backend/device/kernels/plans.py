"""What kernels of selections know of a row beside its line: counts, and memory of the row's own."""

from fewbits.backend.device.language import tl, triton

# Places in a line of a plan: how many values are kept; how many places are listed, the low bits of
# each and the length of the string; addresses of bins of digits, of counts of blocks, of listed
# places, of flags of the string, of kept values.
KEPT_VALUES, LISTED, LOW_BITS, STRING, BINS, COUNTS, PLACES, FLAGS, HANDED, PLAN_WIDTH = range(10)

_WIDTH = tl.constexpr(PLAN_WIDTH)


@triton.jit
def planned(plan, row, NUMBER: tl.constexpr):
    """A number of a row's plan."""
    return tl.load(plan + row * _WIDTH + NUMBER)


@triton.jit
def room(plan, row, NUMBER: tl.constexpr, KIND: tl.constexpr):
    """An address of a row's plan as a pointer."""
    return planned(plan, row, NUMBER).to(tl.pointer_type(KIND))


@triton.jit
def sum_before(counts, block, EVERY: tl.constexpr, FIRST: tl.constexpr, LANES: tl.constexpr):
    """The sum of the counts of blocks before this one: every `EVERY`-th, from the `FIRST` on."""
    total = tl.zeros([LANES], tl.int32)
    for start in range(0, block, LANES):
        own = start + tl.arange(0, LANES)
        total += tl.load(counts + own * EVERY + FIRST, mask=own < block, other=0)
    return tl.sum(total, axis=0)
