"""Golomb-Rice codes: their bits, and the refusal of any others."""

import numpy as np
import pytest

from fewbits import DecodeError
from fewbits.backend.sphere_functions import RiceWriter
from fewbits.coding import rice
from fewbits.wire.sections import Rice


def coded_slowly(numbers: list[int], parameter: int) -> bytes:
    low = "".join(f"{n % 2**parameter:0{parameter}b}"[::-1] if parameter else "" for n in numbers)
    bits = low + "".join("1" * (n >> parameter) + "0" for n in numbers)
    return int(bits[::-1] or "0", 2).to_bytes((len(bits) + 7) // 8, "little")


@pytest.mark.parametrize("parameter", [0, 1, 3, 10, 22])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 300])
def test_numbers_come_back_from_the_defined_bits(parameter: int, count: int) -> None:
    source = np.random.default_rng(count)
    numbers = np.minimum(source.geometric(0.7 / 2**parameter, count) - 1, 32 << parameter)
    data = rice.encode(numbers, parameter)
    assert data.tobytes() == coded_slowly(numbers.tolist(), parameter)
    bound = (32 << parameter) + 1
    assert np.array_equal(rice.decode(data, parameter, bound, count), numbers)
    section = Rice("numbers", count, parameter, bound)
    room = np.zeros(section.size, np.uint8)
    room[:] = 0xA5
    writer, some = RiceWriter(room, parameter, count), numbers.astype(np.int32)
    writer.append(some[:5])
    writer.append(np.int32([-1, -1]))  # blocks without a number
    writer.append(some[5:])
    length = writer.size
    assert room[:length].tobytes() == data.tobytes()
    section.check(length)
    read = rice.decode(room[:length], section.parameter, section.bound, numbers.size)
    assert np.array_equal(read, numbers)
    assert section.size == -(-count * (parameter + 33) // 8)


def test_other_bytes_are_refused() -> None:
    good = rice.encode(np.array([5, 0, 19]), 2)
    assert rice.decode(good, 2, 20, 3).tolist() == [5, 0, 19]
    with pytest.raises(DecodeError, match="not below its bound"):
        rice.decode(good, 2, 19, 3)
    for data in (good[:0], good[:1], np.full(9, 0xFF, np.uint8)):
        with pytest.raises(DecodeError, match="ends before its numbers"):
            rice.decode(data, 2, 20, 3)
    for data in (np.append(good, np.uint8(0)), good | np.array([0, 128], np.uint8)):
        with pytest.raises(DecodeError, match="left over"):
            rice.decode(data, 2, 20, 3)
    with pytest.raises(DecodeError, match="left over"):
        rice.decode(np.zeros(1, np.uint8), 2, 20, 0)
    with pytest.raises(DecodeError, match="has 14 bytes, 3 values need at most 3"):
        Rice("numbers", 3, 2, 20).check(14)


def test_small_sections_never_decode_to_something_else() -> None:
    """All strings of two bytes: what decodes is what encoding gives."""
    accepted = 0
    for value in range(1 << 16):
        data = np.frombuffer(value.to_bytes(2, "little"), np.uint8)
        try:
            numbers = rice.decode(data, 2, 40, 3)
        except DecodeError:
            continue
        accepted += 1
        assert np.array_equal(rice.encode(numbers, 2), data)
    assert 100 < accepted < 1 << 16
