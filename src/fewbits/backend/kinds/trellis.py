"""Rows of levels on paths of a trellis: the native core's own. Large ones are cut into slices."""

import numpy as np

from fewbits.backend import coders, native_rows, parallel
from fewbits.backend.kernel import Kernel, Kind, Row, RowDirection, Written
from fewbits.backend.kinds.dithering import vector_sum
from fewbits.backend.kinds.grid import FORK, in_order, share_of
from fewbits.backend.kinds.joining import JoinedSection
from fewbits.backend.native_rows import NativeRow, run_whole
from fewbits.coding.rans import CODER_BLOCK
from fewbits.errors import DecodeError
from fewbits.reference import grid, grid_scales
from fewbits.reference.casts import to_float64
from fewbits.reference.formats import Bits
from fewbits.reference.grid_scales import LEAST_SQUARES
from fewbits.reference.tally import Tally, total
from fewbits.reference.trellis import SURE_NU, Trellis, least_kept, step_bits
from fewbits.rng import Rng

_STATES = {4: 4, 8: 8, 16: 12}  # in an option
_PLACE_ZERO = 1 << 15  # the place of 1 in a row


def native_numbers(kernel: Kernel) -> tuple[int, int, int] | None:
    """Option, levels and block of a native row; None if native tables lack such a row."""
    if kernel.kind is not Kind.TRELLIS or kernel.before:
        return None
    return _numbers(kernel.numbers)


def run(direction: RowDirection, row: Row) -> Written:
    """Encode, decode or accumulate one row."""
    how: Trellis = row.kernel.numbers
    if direction == "encode" and how.dithered:
        row = row._replace(key=Rng(row.key).child_key(FORK))
    cut = parallel.slices if direction == "encode" else parallel.fine_slices
    slices = cut(row.count(direction), row.threads, CODER_BLOCK)
    if len(slices) > 1:
        encodes = direction == "encode"
        written = _encode_together(row, how) if encodes else _read_slices(direction, row, slices)
        if written is not None:
            return written
    return run_whole(direction, row, _numbers(how), factors=how.factors)


def _numbers(how: Trellis) -> tuple[int, int, int]:
    option = int(how.dithered) + 2 * (how.scale == LEAST_SQUARES) + _STATES[how.states]
    places = (how.least + _PLACE_ZERO) | (how.most + _PLACE_ZERO) << 16 if how.bits else 0
    return option, how.bound - 1, places


def _slice(row: Row, direction: RowDirection, part: slice, own: slice) -> NativeRow:
    """A part of a row's values, and of its section of codes."""
    how: Trellis = row.kernel.numbers
    scales, codes, *keys = row.sections
    option, levels, places = _numbers(how)
    return NativeRow(
        Kind.TRELLIS, row.format.code, option,
        row.values.address + part.start * row.itemsize(direction), part.stop - part.start,
        part.start, row.key, 0,
        (scales.address, codes.address + own.start, keys[0].address if keys else 0),
        (scales.size, own.stop - own.start, keys[0].size if keys else 0),
        levels, places, how.factors,
    )  # fmt: skip


def _read_slices(direction: RowDirection, row: Row, slices: list[slice]) -> Written | None:
    """None if one is refused: one thread settles that."""
    codes, count = row.sections[1], row.count(direction)
    starts = coders.block_starts(codes.array(), -(-count // CODER_BLOCK))

    def work(number: int) -> Tally:
        part = slices[number]
        own = slice(*(starts[-(-at // CODER_BLOCK)] for at in (part.start, part.stop)))
        *_, saturated, nonfinite = native_rows.run_row(direction, _slice(row, direction, part, own))
        return Tally(saturated, nonfinite)

    try:
        met = total(parallel.in_turns(work, len(slices), row.threads))
    except DecodeError:
        return None
    return Written(met, tuple(section.size for section in row.sections))


def _encode_together(row: Row, how: Trellis) -> Written | None:
    """None for rare vectors, which one thread settles.

    Those have a value that is not finite or may be cut, or slices of which one needs more than its
    share of the section.
    """
    format, bits = row.format, row.values.array(row.format.bits)
    squares, largest, shift = vector_sum(bits, format, 2.0, row.threads)
    scanned = grid.Scanned(np.array([shift], np.int32), np.array([squares]), 0)
    if not (0 < squares < np.inf and np.ldexp(scanned.norms[0], shift) <= how.high):
        return None
    peak = float(to_float64(np.array([largest], format.bits), format)[0])
    whole = _slice(row, "encode", slice(0, bits.size), slice(0, row.sections[1].size))
    nu = native_rows.trellis_nu(whole, squares, shift, peak) if how.bits else how.nu
    scales, _, *keys = (section.array() for section in row.sections)
    try:
        sent, kept, size = _stepped(row, how, nu, scanned)
        if how.scale == LEAST_SQUARES and nu > SURE_NU and not kept >= least_kept(format):
            sent, kept, size = _stepped(row, how, SURE_NU, scanned)
    except RuntimeError:
        return None
    written = (coders.write_key(row.key, key) for key in keys)
    return Written(Tally(), (coders.write_floats(sent, scales), size, *written))


def _stepped(row: Row, how: Trellis, nu: float, scanned: grid.Scanned) -> tuple[Bits, float, int]:
    """The scale that is sent, the share of the squares that is kept, and the size of the codes."""
    format, codes, count = row.format, row.sections[1], row.elements
    sent = step_bits(how, nu, scanned, count, format)
    coders.write_floats(sent, row.sections[0].array())
    slices, joined = parallel.slices(count, row.threads), JoinedSection(codes)
    shift = int(scanned.exponents[0])

    def work(number: int) -> grid.Numbers:
        part = slices[number]
        own = share_of(codes.array(), part, count)
        sums = np.zeros((-(-(part.stop - part.start) // CODER_BLOCK), 2))
        size = native_rows.trellis_slice(_slice(row, "encode", part, own), shift, sums)
        joined.add(number, own.start, size)
        return sums

    sums = np.concatenate(parallel.in_turns(work, len(slices), row.threads))
    kept = 1.0
    if how.scale == LEAST_SQUARES:
        products, squared = (np.float64(in_order(sums[:, column])) for column in (0, 1))
        scale = grid_scales.scale_format(format)
        with np.errstate(invalid="ignore", divide="ignore"):
            best = products / squared
            kept = float(best / (scanned.squares[0] / products))
        grid_scales.fit(sent, to_float64(sent, scale), np.ldexp(np.array([best]), shift), scale)
    return sent, kept, joined.size
