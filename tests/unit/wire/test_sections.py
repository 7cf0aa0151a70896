"""Sections say what arrays take, and refuse other lengths."""

import numpy as np
import pytest

from fewbits import DecodeError
from fewbits.backend import coders
from fewbits.reference.formats import FORMATS, Format
from fewbits.wire.sections import Coded, Floats, Packed, check_lengths


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
@pytest.mark.parametrize(("width", "bound"), [(1, 2), (5, 32), (8, 200), (11, 2048), (16, 65536)])
def test_packed_sections_come_back(count: int, width: int, bound: int) -> None:
    section = Packed("codes", count, width=width, bound=bound)
    codes = np.random.default_rng(count).integers(0, bound, count).astype(np.uint16)
    data = np.full(section.size, 0xFF, np.uint8)
    coders.pack(codes, width, data)
    assert np.array_equal(coders.unpack(data, width, bound, count), codes)
    assert section.size == section.least == -(-count * width // 8)


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_float_sections_come_back(format: Format) -> None:
    section = Floats("values", 5, format)
    bits = np.arange(5).astype(format.bits)
    data = np.empty(section.size + 1, np.uint8)[1:]
    assert coders.write_floats(bits, data) == section.size
    assert np.array_equal(coders.read_floats(data, format), bits)
    assert section.size == 5 * format.itemsize


@pytest.mark.parametrize(
    "section", [Packed("codes", 9, width=3, bound=8), Floats("codes", 2, FORMATS[2])]
)
def test_other_lengths_are_refused(section: Packed | Floats) -> None:
    for size in (0, section.size - 1, section.size + 1):
        with pytest.raises(DecodeError, match=f"section 'codes' has {size} bytes, .* need 4"):
            check_lengths([section], [size])
    check_lengths([section], [section.size])


def test_codes_above_the_bound_and_padding_are_refused() -> None:
    with pytest.raises(DecodeError, match="not below its bound"):
        coders.unpack(np.array([0b101, 0], np.uint8), 3, 5, 3)
    with pytest.raises(DecodeError, match="unused bits"):
        coders.unpack(np.array([0, 0b10], np.uint8), 3, 5, 3)


@pytest.mark.parametrize("count", [0, 1, 2, 9, 3000, 70_000])
@pytest.mark.parametrize("bound", [2, 9, 256, 2048])
@pytest.mark.parametrize("signed", [False, True])
def test_coded_sections_come_back(count: int, bound: int, signed: bool) -> None:
    section = Coded("codes", count, bound=bound, signed=signed)
    rng = np.random.default_rng(count)
    values = np.minimum(rng.geometric(0.5, count) - 1, bound - 1).astype(np.int32)
    if signed:
        values *= rng.choice(np.array([-1, 1], np.int32), count)
    data = np.empty(section.size, np.uint8)
    length = coders.write_coded(values, bound, data, signed=signed)
    section.check(length)
    read = coders.read_coded(data[:length], bound, count, signed=signed)
    assert np.array_equal(read, values)


def test_impossible_lengths_of_coded_sections_are_refused() -> None:
    section = Coded("codes", 65_540, bound=256, signed=True)
    assert section.size == 3 + 1 + 65_536 + 8192 + 3 + 1 + 4 + 1
    for length in (0, 11, section.size + 1):
        message = f"section 'codes' has {length} bytes, 65540 values need 12 to {section.size}"
        with pytest.raises(DecodeError, match=message):
            section.check(length)
    room = np.empty(section.size, np.uint8)
    assert coders.write_coded(np.zeros(65_540, np.int32), 256, room) == 12 == section.least
    Coded("codes", 0, bound=2, signed=False).check(0)
    tiny = Coded("codes", 1, bound=2, signed=False)
    written = coders.write_coded(
        np.ones(1, np.int32), 2, np.empty(tiny.size, np.uint8), signed=False
    )
    assert written == 5 == tiny.size
