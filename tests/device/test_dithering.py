"""Dithering on the device backend against the host's, bit for bit."""

import numpy as np
import pytest

from device_rows import device, lent, vector
from device_tables import compare
from fewbits import registry
from fewbits.backend.device import launches
from fewbits.backend.device.kinds import dithering
from fewbits.backend.kernel import Row
from fewbits.errors import DecodeError
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from fewbits.rng import Rng

FORMATS = FLOAT32, BFLOAT16, FLOAT16
KINDS = "normal", "bits", "subnormal", "huge", "edges", "zeros", "spread"
SPECS = (
    "natural-dithering",
    "natural-dithering:levels=15,p=2,block=32",
    "natural-dithering:levels=127,p=1,scale=natural",
    "standard-dithering",
    "standard-dithering:levels=5,p=1,block=8,scale=natural",
    "standard-dithering:levels=300,p=2,block=64",
)
MORE_SPECS = (
    "natural-dithering:levels=1",
    "natural-dithering:levels=2,block=8,scale=natural",
    "natural-dithering:levels=40,p=2",
    "natural-dithering:levels=100,p=1,block=16",
    "standard-dithering:levels=1,p=2",
    "standard-dithering:levels=3,scale=natural",
    "standard-dithering:levels=20,block=1024,p=1",
    "standard-dithering:levels=60,block=16",
    "standard-dithering:levels=127",
    "standard-dithering:levels=1000,p=2",
    "standard-dithering:levels=2047,block=128",
    "standard-dithering:levels=4000",
    "standard-dithering:levels=8191,p=1",
    "standard-dithering:levels=16000",
    "standard-dithering:levels=32767,p=2,scale=natural,block=8",
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Programs of few values, which the interpreter likes better for short vectors."""
    monkeypatch.setattr(launches, "_INTERPRETED_BLOCK", 512)


def made(kind, count, format):
    rng = Rng.from_seed(count)
    if kind == "zeros":
        return np.zeros(count, format.bits)
    if kind != "spread":
        return vector(kind, count, format, rng)
    # Many magnitudes that are a level's own value, or its neighbour.
    steps = np.random.default_rng(count).integers(0, 8, count)
    values = np.float32(0.7) * steps.astype(np.float32) / np.float32(7)
    bits = values.view(np.uint32) if format == FLOAT32 else values.astype(np.float16).view("<u2")
    return (bits if format != BFLOAT16 else values.view(np.uint32) >> 16).astype(format.bits)


def vectors(format, lengths):
    return [made(kind, count, format) for kind in KINDS for count in lengths]


FEW = [
    pytest.param(spec, format, id=f"{spec}-{format.name}")
    for number, spec in enumerate(SPECS)
    for format in (FLOAT32, (BFLOAT16, FLOAT16)[number % 2])
]


@pytest.mark.parametrize(("spec", "format"), FEW)
def test_bits_are_the_hosts(spec, format):
    """Every kind of vector, each of another length: one value, tails, several blocks.

    Each spec with one of the formats of 16 bits; with both is `test_every_width_and_length`.
    """
    lengths = 1003, 72, 7, 520, 13, 1, 65
    x = [made(kind, count, format) for kind, count in zip(KINDS, lengths, strict=True)]
    assert compare(spec, format, x, gap=1) == 7


@pytest.mark.parametrize("spec", SPECS[::2])
def test_blocks_of_programs_change_nothing(spec, monkeypatch):
    """The blocks that devices have, whole ones and smaller ones for tails."""
    monkeypatch.setattr(launches, "_INTERPRETED_BLOCK", 64)
    monkeypatch.setattr(dithering, "INTERPRETED", "no device here")
    monkeypatch.setattr(dithering, "PROGRAM_VALUES", 64)
    x = [made("normal", count, FLOAT32) for count in (64, 150)]
    assert compare(spec, FLOAT32, x) == 2


@pytest.mark.soak
@pytest.mark.parametrize("format", FORMATS, ids=lambda own: own.name)
@pytest.mark.parametrize("spec", SPECS + MORE_SPECS)
def test_every_width_and_length(spec, format):
    lengths = 1, 2, 7, 8, 9, 33, 257, 1500
    gap = len(spec) % 2
    assert compare(spec, format, vectors(format, lengths), gap) == len(KINDS) * len(lengths)


@pytest.mark.soak
@pytest.mark.parametrize("spec", SPECS)
def test_long_vectors_have_one_norm(spec, monkeypatch):
    monkeypatch.setattr(launches, "_INTERPRETED_BLOCK", 1 << 16)
    x = [vector("normal", count, FLOAT32, Rng.from_seed(count)) for count in (65_537, 200_001)]
    assert compare(spec, FLOAT32, x) == 2


def row_of(spec, format, count, sections):
    kernel = registry.operator(spec).kernel(count, format)
    return Row(kernel, format, lent(np.zeros(count, format.bits)), tuple(map(lent, sections)))


@pytest.mark.parametrize("format", [FLOAT32, FLOAT16], ids=lambda own: own.name)
@pytest.mark.parametrize(
    ("scale", "codes", "reason"),
    [
        (0, [1, 0], "a block whose scale is 0"),
        (1, [0, 0x80], "unused bits"),
        (1, [12, 0], "not below its bound"),
        (-1, [0, 0], "a scale is negative or not finite"),
    ],
)
def test_refuses_what_the_host_refuses(format, scale, codes, reason):
    bits = {0: 0, 1: format.bias << format.mantissa, -1: format.infinity}[scale]
    sections = [np.array([bits], format.bits), np.array(codes, np.uint8)]
    row = row_of("standard-dithering:levels=5", format, 3, sections)
    with pytest.raises(DecodeError, match=reason):
        device().run_row("decode", row)


def test_refuses_bits_behind_packed_scales():
    sections = [np.array([0x2F], np.uint8), np.array([0, 0], np.uint8)]
    row = row_of("natural-dithering:scale=natural", FLOAT16, 3, sections)
    with pytest.raises(DecodeError, match="unused bits"):
        device().run_row("decode", row)


@pytest.mark.parametrize(
    ("spec", "format", "instead"),
    [
        ("natural-dithering:coder=rans", FLOAT32, "coder=packed"),
        ("standard-dithering:p=3", FLOAT32, "1, 2 or inf"),
        ("natural-dithering", FLOAT64, "float32"),
    ],
)
def test_says_what_to_use_instead(spec, format, instead):
    reason = device().refusal(registry.operator(spec).kernel(8, format), format)
    assert instead in reason
    assert "\n" not in reason
