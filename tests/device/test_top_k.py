"""Selections and memories on the device backend against the host's, bit for bit."""

import numpy as np
import pytest

from device_rows import device, lent, vector
from device_tables import Laid, compare, quiet, run_tables
from fewbits import registry
from fewbits.backend import cpu
from fewbits.backend.buffers import Buffer
from fewbits.backend.device import launches
from fewbits.backend.kernel import Kernel, Kind, Row
from fewbits.backend.table import Table
from fewbits.coding import places
from fewbits.errors import DecodeError
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32
from fewbits.rng import Rng

FORMATS = FLOAT32, BFLOAT16, FLOAT16
KINDS = "normal", "bits", "subnormal", "huge", "edges", "zeros", "ties"
SPECS = "top-k:fraction=0.01|natural", "top-k:fraction=0.3|natural", "top-k:fraction=0.8|natural"
MORE_SPECS = (
    "top-k:fraction=0.001|natural:rounding=nearest",
    "top-k:fraction=0.1|natural-dithering:p=2",
    "top-k:fraction=0.5|natural",
    "top-k:fraction=0.97|standard-dithering:block=8",
    "top-k:fraction=1|natural",
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Programs of few values, which the interpreter likes better for short vectors."""
    monkeypatch.setattr(launches, "_INTERPRETED_BLOCK", 512)


def made(kind, count, format):
    if kind == "zeros":
        return np.zeros(count, format.bits)
    if kind == "ties":
        words = np.random.default_rng(count)
        few = np.array([0, 1 << format.mantissa, 2 << format.mantissa], np.uint64)
        signs = words.integers(0, 2, count, np.uint64) * np.uint64(format.sign)
        return (words.choice(few, count) | signs).astype(format.bits)
    return vector(kind, count, format, Rng.from_seed(count))


def vectors(format, lengths):
    return [made(kind, count, format) for kind in KINDS for count in lengths]


def some(format):
    """Every kind of vector, each of another length."""
    lengths = 600, 77, 13, 2, 300, 33, 520
    return [made(kind, count, format) for kind, count in zip(KINDS, lengths, strict=True)]


@pytest.mark.parametrize(
    ("spec", "format"),
    [(SPECS[0], FLOAT32), (SPECS[1], BFLOAT16), (SPECS[2], FLOAT16)],
    ids=["few", "many", "most"],
)
def test_bits_are_the_hosts(spec, format):
    assert compare(spec, format, some(format), gap=1) == 7


def test_all_values_kept_are_the_hosts():
    assert compare("top-k:fraction=1|natural", FLOAT32, some(FLOAT32)[:3]) == 3


@pytest.mark.parametrize("spec", SPECS[1:])
def test_blocks_of_programs_change_nothing(spec, monkeypatch):
    monkeypatch.setattr(launches, "_INTERPRETED_BLOCK", 64)
    assert compare(spec, FLOAT32, [made("ties", 150, FLOAT32)]) == 1


@pytest.mark.soak
@pytest.mark.parametrize("format", FORMATS, ids=lambda own: own.name)
@pytest.mark.parametrize("spec", SPECS + MORE_SPECS)
def test_every_length(spec, format):
    lengths = 1, 3, 8, 100, 1500
    gap = len(spec) % 2
    assert compare(spec, format, vectors(format, lengths), gap) == len(KINDS) * len(lengths)


@pytest.mark.soak
@pytest.mark.parametrize("spec", SPECS)
def test_units_and_long_vectors(spec, monkeypatch):
    monkeypatch.setattr(launches, "_INTERPRETED_BLOCK", 1 << 16)
    assert compare(spec, FLOAT32, vectors(FLOAT32, (65_536, 150_001))) == 2 * len(KINDS)


def refused(sections, count, kept):
    kernel = Kernel(Kind.NATURAL, before=(Kernel(Kind.TOP_K, 0, (kept,)),))
    parts = tuple(map(lent, sections))
    with pytest.raises(DecodeError, match="section of places is not one that an encoder writes"):
        device().run_row("decode", Row(kernel, FLOAT32, lent(np.zeros(count, "<u4")), parts))


@pytest.mark.parametrize(
    ("count", "kept"),
    [(6, 1), *(pytest.param(*own, marks=pytest.mark.soak) for own in [(40, 4), (40, 37), (10, 5)])],
)
def test_refuses_every_set_that_the_host_refuses(count, kept):
    """All changes of one bit of a section: the device refuses what the specification refuses."""
    chosen = np.sort(np.random.default_rng(count).permutation(count)[:kept]).astype(np.uint32)
    good = np.frombuffer(places.encode(chosen, count), np.uint8)
    codes, signs = np.full(kept, 127, np.uint8), np.zeros(-(-kept // 8), np.uint8)
    kernel = Kernel(Kind.NATURAL, before=(Kernel(Kind.TOP_K, 0, (kept,)),))
    bad = 0
    for bit in range(8 * good.size):
        changed = good.copy()
        changed[bit // 8] ^= 1 << bit % 8
        values = lent(np.zeros(count, "<u4"))
        row = Row(kernel, FLOAT32, values, tuple(map(lent, (changed, codes, signs))))
        try:
            found = places.decode(changed.tobytes(), count, kept)
        except DecodeError:
            refused((changed, codes, signs), count, kept)
            bad += 1
            continue
        device().run_row("decode", row)
        assert np.array_equal(np.flatnonzero(np.frombuffer(values.tobytes(), "<u4")), found)
    assert bad


# ---- memories ----


@pytest.mark.parametrize("kind", ["normal", "edges"])
def test_remains_are_the_hosts(kind):
    spec, counts = "top-k:fraction=0.1|natural", [20, 333]
    laid = Laid.of(spec, FLOAT32, counts, 0)
    values = np.concatenate([made(kind, count, FLOAT32) for count in counts])
    before, sections = values.copy(), np.zeros(laid.room, np.uint8)
    left, sent = run_tables("accumulate", laid, values, sections, remains=True)
    assert sections.tobytes() == sent
    assert quiet(values.view(np.float32)) == quiet(np.frombuffer(left, np.float32))
    assert not np.array_equal(values, before)


@pytest.mark.parametrize(
    ("factors", "target"), [((1.0, 1.0), 2), ((0.5, -1.0), 0), ((-0.3, 1.0), 1)]
)
def test_sums_of_two_vectors_are_the_hosts(factors, target):
    """The result may lie where a term does."""
    counts = [1, 77, 1025]
    x, y = (np.concatenate([made(own, n, FLOAT32) for n in counts]) for own in ("bits", "huge"))
    host = [x.copy(), y.copy(), np.zeros_like(x)]
    there = [lent(own) for own in host]
    for arrays, run in ((list(map(Buffer.of, host)), cpu.run), (there, device().run)):
        starts = np.cumsum([0, *counts[:-1]]).astype(np.uint64) * np.uint64(4)
        table = Table(len(counts))
        for number, count in enumerate(counts):
            table.describe(number, Kernel(Kind.COMBINE), FLOAT32, count)
            table.combine(number, factors, 4 * count)
        addresses = [np.uint64(own.address) + starts for own in arrays]
        table.bind_each(addresses[target], arrays[0].device)
        table.place_terms(np.stack(addresses[:2], axis=1))
        run("accumulate", table)
    assert quiet(host[target].view(np.float32)) == there[target].tobytes()


def test_says_what_to_use_instead():
    kernel = registry.operator("rand-k|natural").kernel(8, FLOAT32)
    assert "rand-k before another operator" in device().refusal(kernel, FLOAT32)
    kernel = registry.operator("top-k|natural").earlier().kernel(8, FLOAT32)
    assert "places of wire version 1" in device().refusal(kernel, FLOAT32)
    kernel = registry.operator("top-k|natural:coder=rans").kernel(8, FLOAT32)
    assert "coder=packed" in device().refusal(kernel, FLOAT32)
