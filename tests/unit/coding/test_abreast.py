"""Blocks that a table of kernels decodes side by side: the codes and the errors of one by one."""

from collections.abc import Iterator

import numpy as np
import pytest

from fewbits import DecodeError
from fewbits.backend import coders
from fewbits.coding import rans
from native_tables import each_table

BLOCK = rans.CODER_BLOCK


def bell(rng: np.random.Generator, n: int) -> np.ndarray:
    """Exponents of normal values: few symbols, the rare ones first and last."""
    return 120 + np.frexp(rng.standard_normal(n) + 1e-9)[1]


DRAWS = {
    "bell": bell,
    "thirty-two": lambda rng, n: 7 * rng.integers(0, 32, n),
    "more": lambda rng, n: rng.integers(0, 33, n),
    "often one": lambda rng, n: 1 + (rng.random(n) < 0.08) * rng.geometric(0.7, n),
    "two": lambda rng, n: 255 * (rng.random(n) < 0.3),
    # Symbols rarer than a cell of slots, between others.
    "rare within": lambda rng, n: np.where(
        rng.random(n) < 0.003, rng.integers(20, 30, n), rng.integers(0, 2, n) * 50
    ),
    "rare at the ends": lambda rng, n: np.where(
        rng.random(n) < 0.004, rng.integers(0, 15, n) * 13, rng.integers(90, 93, n)
    ),
}


def codes_of(draw: str, n: int) -> np.ndarray:
    codes = DRAWS[draw](np.random.default_rng([n, len(draw)]), n)
    return np.minimum(codes, 255).astype(np.uint16)


def signs_of(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 2, n).astype(np.uint8)


def blocks_of(section: bytes) -> Iterator[tuple[int, int]]:
    """Where each begins and ends, without its length."""
    at = 0
    while at < len(section):
        start = at + 3
        at = start + int.from_bytes(section[at:start], "little")
        yield start, at


def read(section: bytes, count: int) -> object:
    try:
        codes, signs = coders.coded_decode(section, 256, count, True)
    except DecodeError as error:
        return str(error)
    assert signs is not None
    return codes.tobytes(), signs.tobytes()


def agreed(section: bytes, count: int) -> object:
    first, *others = [read(section, count) for _ in each_table()]
    assert all(other == first for other in others)
    return first


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("count", [2 * BLOCK, 3 * BLOCK + 1, 5 * BLOCK - 1])
def test_every_table_reads_them(draw: str, count: int) -> None:
    codes, signs = codes_of(draw, count), signs_of(count)
    section = coders.coded_encode(codes, 256, signs)
    expected = codes.tobytes(), (signs * (codes != 0)).astype(np.uint8).tobytes()
    assert agreed(section, count) == expected


@pytest.mark.parametrize("other", ["constant", "uniform", "sparse"])
@pytest.mark.parametrize("place", [0, 1, 4, 5])
def test_beside_a_block_of_another_kind(place: int, other: str) -> None:
    count = 7 * BLOCK
    codes, signs = codes_of("bell", count), signs_of(count)
    rng = np.random.default_rng(3)
    codes[place * BLOCK : (place + 1) * BLOCK] = {
        "constant": 9,
        "uniform": rng.integers(0, 256, BLOCK),
        "sparse": (rng.random(BLOCK) < 0.01) * rng.integers(1, 9, BLOCK),
    }[other]
    section = coders.coded_encode(codes, 256, signs)
    assert (
        section[next(b for i, (b, _) in enumerate(blocks_of(section)) if i != place)] == rans.RANS
    )
    expected = codes.tobytes(), (signs * (codes != 0)).astype(np.uint8).tobytes()
    assert agreed(section, count) == expected


@pytest.mark.parametrize("number", [0, 1, 3])
@pytest.mark.parametrize("draw", ["bell", "often one"])
def test_the_same_error_whichever_block_is_wrong(draw: str, number: int) -> None:
    count = 4 * BLOCK
    section = coders.coded_encode(codes_of(draw, count), 256, signs_of(count))
    start, end = list(blocks_of(section))[number]
    found = set()
    for at in (0, 1, 2, 3, 6, 40, 120, 151, 170, 5000, end - start - 8300, end - start - 1):
        for bit in (1, 0x80):
            damaged = bytearray(section)
            damaged[start + at] ^= bit
            found.add(isinstance(agreed(bytes(damaged), count), str))
    for lost in (1, 60, 8150, 8260):  # of the signs, then of the words
        size = (end - start - lost).to_bytes(3, "little")
        short = section[: start - 3] + size + section[start : end - lost] + section[end:]
        assert isinstance(agreed(short, count), str)
    assert True in found
