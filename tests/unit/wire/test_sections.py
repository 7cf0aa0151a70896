"""Sections accept exactly what they can have written."""

import numpy as np
import pytest

from fewbits import DecodeError
from fewbits.kernels.formats import FORMATS, Format
from fewbits.wire.sections import Floats, Packed


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
@pytest.mark.parametrize(("width", "bound"), [(1, 2), (5, 32), (8, 200), (11, 2048), (16, 65536)])
def test_packed_sections_come_back(count: int, width: int, bound: int) -> None:
    section = Packed("codes", count, width=width, bound=bound)
    codes = np.random.default_rng(count).integers(0, bound, count).astype(np.uint16)
    data = np.full(section.size, 0xFF, np.uint8)
    section.write(codes, data)
    assert np.array_equal(section.read(data), codes)
    assert section.size == -(-count * width // 8)


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_float_sections_come_back(format: Format) -> None:
    section = Floats("values", 5, format)
    bits = np.arange(5).astype(format.bits)
    data = np.empty(section.size + 1, np.uint8)[1:]
    section.write(bits, data)
    assert np.array_equal(section.read(data), bits)
    assert section.size == 5 * format.itemsize


@pytest.mark.parametrize(
    "section", [Packed("codes", 9, width=3, bound=8), Floats("codes", 2, FORMATS[2])]
)
def test_other_lengths_are_refused(section: Packed | Floats) -> None:
    for size in (0, section.size - 1, section.size + 1):
        with pytest.raises(DecodeError, match=f"section 'codes' has {size} bytes, .* need 4"):
            section.read(np.zeros(size, np.uint8))


def test_codes_above_the_bound_and_padding_are_refused() -> None:
    section = Packed("codes", 3, width=3, bound=5)
    with pytest.raises(DecodeError, match="not below its bound"):
        section.read(np.array([0b101, 0], np.uint8))
    with pytest.raises(DecodeError, match="unused bits"):
        section.read(np.array([0, 0b10], np.uint8))
