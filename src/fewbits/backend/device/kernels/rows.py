"""What kernels know of a table: lines of numbers on the device, and the program's share of them.

Every kernel takes four tables first. `work` says, for each program, a row and a block of it. `rows`
has a line of `LINE_WIDTH` numbers for each row: address of its values, their count, two numbers of
its kind's own, addresses of its sections. `keys` are the rows' streams, four words each. `tally`
has four counts for each row, which kernels add to.
"""

from fewbits.backend.device.language import tl, triton

AT_VALUES, AT_COUNT, AT_OWN, AT_SECTIONS, LINE_WIDTH = 0, 1, 2, 4, 8  # places in a line of `rows`
SECTION_COLUMNS = LINE_WIDTH - AT_SECTIONS
SATURATED, NONFINITE, BAD, TALLIES = 0, 1, 2, 4  # places in a line of `tally`
PROGRAM_VALUES = 4096  # values of a program
WARPS, TAIL_WARPS = 8, 16

_VALUES, _COUNT = tl.constexpr(AT_VALUES), tl.constexpr(AT_COUNT)
_SECTIONS, _WIDTH = tl.constexpr(AT_SECTIONS), tl.constexpr(LINE_WIDTH)
_OWN = tl.constexpr(AT_OWN)
_TALLIES, _BAD = tl.constexpr(TALLIES), tl.constexpr(BAD)


def reason(status: int) -> tl.constexpr:
    """The bit that says why a row is bad; of several, the lowest status is told."""
    return tl.constexpr(1 << status)


@triton.jit
def share(work):
    """The program's row and block."""
    program = tl.program_id(0)
    return tl.load(work + 2 * program), tl.load(work + 2 * program + 1)


@triton.jit
def count_of(rows, row):
    return tl.load(rows + row * _WIDTH + _COUNT)


@triton.jit
def left_of(rows, row, start, BLOCK: tl.constexpr, TAILS: tl.constexpr):
    """How many values of a block there are: all, or with TAILS fewer, which is a row's last one."""
    if TAILS:
        return (count_of(rows, row) - start).to(tl.int32)
    else:
        return tl.full((), BLOCK, tl.int32)


@triton.jit
def own_number(rows, row, NUMBER: tl.constexpr):
    """One of the two numbers that mean what the row's kind wants."""
    return tl.load(rows + row * _WIDTH + _OWN + NUMBER)


@triton.jit
def pointer(address, KIND: tl.constexpr, ALIGNED: tl.constexpr):
    """An address as a pointer to numbers of a kind; ALIGNED: the host knows it to be so."""
    found = tl.cast(address, tl.int64).to(tl.pointer_type(KIND))
    if ALIGNED:
        found = tl.multiple_of(found, 16)
    return found


@triton.jit
def values_of(rows, row, KIND: tl.constexpr, ALIGNED: tl.constexpr):
    return pointer(tl.load(rows + row * _WIDTH + _VALUES), KIND, ALIGNED)


@triton.jit
def section_of(rows, row, NUMBER: tl.constexpr, KIND: tl.constexpr, ALIGNED: tl.constexpr):
    return pointer(tl.load(rows + row * _WIDTH + _SECTIONS + NUMBER), KIND, ALIGNED)


@triton.jit
def total_of(flags):
    """How many of a block's flags are set, in 64 bits."""
    return tl.sum(tl.sum(flags.to(tl.int32), axis=1), axis=0).to(tl.int64)


@triton.jit
def count(tally, row, NUMBER: tl.constexpr, flags):
    """Add the number of set flags to one of a row's counts."""
    tl.atomic_add(tally + row * _TALLIES + NUMBER, total_of(flags))


@triton.jit
def refuse(tally, row, REASON: tl.constexpr, is_bad):
    """Say that a row is bad; see `reason`."""
    if is_bad:
        tl.atomic_or(tally + row * _TALLIES + _BAD, tl.full((), REASON, tl.int64))
