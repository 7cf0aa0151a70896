"""Sums, casts and the relay on the device backend against the host's, bit for bit."""

import numpy as np
import pytest

from device_rows import DEVICE, VECTORS, device, lent, run_both, same_bits, same_totals, vector
from fewbits.backend import cpu
from fewbits.backend.buffers import CPU, Buffer
from fewbits.backend.kernel import CODED, Kernel, Kind, Row
from fewbits.backend.table import Table
from fewbits.coding.bitpack import packed_size
from fewbits.errors import DecodeError, SpecError
from fewbits.reference.formats import BFLOAT16, BY_CODE, FLOAT16, FLOAT32, FLOAT64
from fewbits.rng import Rng

FORMATS = FLOAT32, BFLOAT16, FLOAT16
COUNTS = 9, 65_537


def names(own):
    return own.name


@pytest.mark.parametrize("target", FORMATS, ids=names)
@pytest.mark.parametrize("format", FORMATS, ids=names)
def test_casts_are_the_hosts(format, target):
    kernel = Kernel(Kind.CAST, target.code)
    for each in (1, 683):
        rng = Rng.from_seed(each)
        x = np.concatenate([vector(kind, each, format, rng) for kind in VECTORS])
        part = [np.zeros(x.size, target.bits)]
        _, _, sent = run_both("encode", kernel, format, x, part)
        assert same_bits(part[0], sent[0])
        y = np.zeros_like(x)
        _, there, _ = run_both("decode", kernel, format, y, part)
        assert same_bits(y, there)
        totals = np.linspace(-1, 1, x.size, dtype=np.float32)
        _, there, _ = run_both("accumulate", kernel, format, totals, part)
        assert same_totals(totals, there)


@pytest.mark.parametrize("target", FORMATS[1:], ids=names)
@pytest.mark.parametrize("format", FORMATS, ids=names)
def test_every_pattern_of_16_bits(format, target):
    """All of a section's patterns: the values, and what no cast can have written."""
    kernel, sent = Kernel(Kind.CAST, target.code), np.arange(1 << 16, dtype=np.uint16)
    table, values, _ = lay(kernel, format, sent)
    there, beyond, _ = lay(kernel, format, sent, DEVICE)
    cpu.run("decode", table)
    device().run("decode", there)
    assert values.tobytes() == beyond.tobytes()
    assert table.rows["tally"].tobytes() == there.rows["tally"].tobytes()
    if format == target:
        return
    for pattern in (0x7FFF, 0xFFFF, 0x0001, 0x7BFF, 0x7F7F, 0x3333):
        part, x = np.array([pattern], np.uint16), np.zeros(1, format.bits)
        found = [
            refused(backend, Row(kernel, format, lend(x), (lend(part),)))
            for backend, lend in ((cpu, Buffer.of), (device(), lent))
        ]
        assert found[0] == found[1]


def lay(kernel, format, section, place=CPU):
    """A table of one row that reads a section."""
    lend = Buffer.of if place == CPU else lent
    own, values = lend(section), Buffer.zeros(section.size * format.itemsize, place)
    table = Table(1)
    table.describe(0, kernel, format, section.size, 1)
    table.bind(values, np.zeros(1, np.uint64))
    sizes = np.array([[own.size]], np.uint64)
    table.place(slice(None), own, np.zeros((1, 1), np.uint64), sizes)
    return table, values, own


def refused(backend, row):
    try:
        backend.run_row("decode", row)
    except DecodeError as error:
        return str(error)
    return None


# ---- sums ----


def section_sizes(kernel, format, count):
    if kernel.kind is Kind.NATURAL:
        return [packed_size(count, format.exponent), packed_size(count, 1)]
    return [count * BY_CODE[kernel.option].itemsize, 0]


class Sums:
    """A table that sums encoded vectors, with all its memory in one place."""

    def __init__(self, term, onward, format, ranks, place, *, divisor=None, kind="normal", odd=0):
        self.ranks, self.rows = ranks, ranks + 2 + (onward is not None)
        self.table = Table(self.rows * len(COUNTS), 2)
        self.totals = Buffer.zeros(4 * sum(COUNTS), place)
        starts, at, offsets, sizes = [], odd, [], []
        for count in COUNTS:
            for row in range(self.rows):
                own = self.describe(term, onward, format, count, row, len(starts), divisor)
                offsets.append([at, at + own[0]])
                sizes.append(own)
                at += sum(own) if odd else -(-sum(own) // 16) * 16
                starts.append(4 * sum(COUNTS[: COUNTS.index(count)]) if onward is None else 0)
        self.memory = Buffer.zeros(at, place)
        self.offsets, self.sizes = np.array(offsets, np.uint64), np.array(sizes, np.uint64)
        self.table.place(slice(None), self.memory, self.offsets, self.sizes)
        self.table.bind(self.totals, np.array(starts, np.uint64))
        keys = [Rng.from_seed(row).key for row in range(len(self.table))]
        self.table.set_keys(slice(None), keys)
        self.send(term, format, kind)

    def describe(self, term, onward, format, count, row, at, divisor):
        table, divide = self.table, self.ranks + 1
        if row in (0, divide):
            step = Kernel(Kind.CLEAR if row == 0 else Kind.DIVIDE)
            table.describe(at, step, format, count)
            table.divide_by(at, (divisor or self.ranks) if row else 0)
            return [0, 0]
        kernel, own = (term, format) if row < divide else (onward, FLOAT32)
        table.describe(at, kernel, own, count, 2 if kernel.kind is Kind.NATURAL else 1)
        if row > divide:
            table.let_encode(at)
        return section_sizes(kernel, own, count)

    def send(self, term, format, kind):
        """Write the terms, which the host encodes."""
        content = np.frombuffer(self.memory.tobytes(), np.uint8).copy()
        for row in range(len(self.table)):
            if 0 < row % self.rows <= self.ranks:
                count, rng = int(self.table.rows["count"][row]), Rng.from_seed(1000 + row)
                x = vector(kind, count, format, rng)
                parts = [
                    Buffer.of(content[start : start + size])
                    for start, size in zip(self.offsets[row], self.sizes[row], strict=True)
                ]
                parts = parts[: 2 if term.kind is Kind.NATURAL else 1]
                cpu.run_row("encode", Row(term, format, Buffer.of(x), tuple(parts), rng.key))
        self.write(self.memory, content)

    @staticmethod
    def write(place, content):
        if place.device == CPU:
            place.array()[:] = content
        else:
            place.owner.copy_(lent(content).owner)


NATURAL, NEAREST = Kernel(Kind.NATURAL), Kernel(Kind.NATURAL, 1)
EXACT, HALF = Kernel(Kind.CAST, FLOAT32.code), Kernel(Kind.CAST, BFLOAT16.code)
PAIRS = [
    (NATURAL, NATURAL, FLOAT32, 3),
    (NATURAL, NEAREST, FLOAT16, 2),
    (NATURAL, NATURAL, BFLOAT16, 4),
    (EXACT, EXACT, FLOAT32, 3),
    (HALF, HALF, FLOAT32, 2),
    (HALF, NATURAL, BFLOAT16, 1),
    (NATURAL, None, FLOAT32, 5),
    (EXACT, None, FLOAT32, 4),
]


@pytest.mark.parametrize(("kind", "odd"), [("normal", 0), ("edges", 3)])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda own: f"{own[0].kind.name}-{own[2].name}")
def test_the_relay_is_the_hosts(pair, kind, odd):
    check_sums(*pair, kind=kind, odd=odd)


@pytest.mark.soak
@pytest.mark.parametrize("odd", [0, 3])
@pytest.mark.parametrize("kind", VECTORS)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda own: f"{own[0].kind.name}-{own[2].name}")
def test_the_relay_of_every_kind_is_the_hosts(pair, kind, odd):
    check_sums(*pair, kind=kind, odd=odd)


def check_sums(*pair, together=True, **how):
    here, there = Sums(*pair, CPU, **how), Sums(*pair, DEVICE, **how)
    cpu.run("accumulate", here.table, together=here.rows)
    device().run("accumulate", there.table, together=there.rows if together else 1)
    if pair[1] is None:
        assert same_totals(here.totals.array(np.float32), there.totals)
    elif pair[1] == EXACT:
        assert same_floats(here.memory, there.memory)
    else:
        assert here.memory.tobytes() == there.memory.tobytes()
    assert here.table.rows["tally"].tobytes() == there.table.rows["tally"].tobytes()


def same_floats(here, there):
    """Equal bits, of float32 at multiples of four bytes; the means' NaN is a device's own."""
    one, other = (np.frombuffer(own.tobytes(), np.uint8) for own in (here, there))
    differs = np.flatnonzero(one != other)
    for at in range(4):
        size = (one.size - at) // 4 * 4
        nan = np.isnan(other[at : at + size].view(np.float32))
        covered = at + 4 * np.flatnonzero(nan)[:, None] + np.arange(4)
        differs = np.setdiff1d(differs, covered)
    return not differs.size


@pytest.mark.parametrize("pair", [PAIRS[0], PAIRS[3], PAIRS[6]], ids=lambda own: own[0].kind.name)
def test_rows_of_a_sum_in_launches_of_their_own_give_the_same(pair):
    check_sums(*pair, together=False)


@pytest.mark.parametrize("divisor", [3, 1 << 20, (1 << 24) + 1])
def test_division_is_rounded_once(divisor):
    check_sums(NATURAL, None, FLOAT32, 2, divisor=divisor, kind="bits")


def test_a_bad_term_is_named_and_counted():
    own = Sums(NATURAL, NATURAL, FLOAT32, 3, DEVICE)
    row = own.rows + 2  # the second term of the second sum
    for section, byte in ((0, 0), (1, 1)):  # a sign on a zero
        at = int(own.offsets[row, section])
        own.memory[at : at + 1].owner[:] = byte
    with pytest.raises(DecodeError) as error:
        device().run("accumulate", own.table, together=own.rows)
    assert error.value.row == row
    counts = Buffer.zeros(32, DEVICE)
    for _ in range(2):
        device().run("accumulate", own.table, together=own.rows, counts=counts)
    assert np.frombuffer(counts.tobytes(), np.int64).tolist() == [0, 0, 2, row + 1]


def test_counts_are_those_of_rows_that_encode():
    found = []
    for place, backend in ((CPU, cpu), (DEVICE, device())):
        own = Sums(NATURAL, NATURAL, FLOAT32, 3, place, kind="edges")
        counts = Buffer.zeros(32, place)
        backend.run("accumulate", own.table, together=own.rows, counts=counts)
        found.append(np.frombuffer(counts.tobytes(), np.int64).tolist())
    assert found[0] == found[1]
    assert found[0][1] > 0


def test_what_a_device_lacks_is_refused_in_one_line():
    coded, cases = Kernel(Kind.NATURAL, CODED), []
    cases.append((coded, FLOAT32, "coder=packed"))
    cases.append((NATURAL, FLOAT64, "float32"))
    cases.append((Kernel(Kind.SPHERICAL), FLOAT32, "staged=True"))
    cases.append((Kernel(Kind.PYTHON), FLOAT32, "staged=True"))
    for kernel, format, word in cases:
        line = device().refusal(kernel, format)
        assert word in line
        assert "\n" not in line
        values = Buffer.zeros(8 * format.itemsize, DEVICE)
        with pytest.raises(SpecError, match=word):
            device().run_row("encode", Row(kernel, format, values, (values,)))
    assert device().refusal(NATURAL, FLOAT32) is None
