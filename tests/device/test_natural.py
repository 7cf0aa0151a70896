"""Natural compression on the device backend against the host's, bit for bit."""

import numpy as np
import pytest

from device_rows import VECTORS, device, lent, run_both, same_bits, same_totals, vector
from fewbits.backend.kernel import Kernel, Kind, Row
from fewbits.coding.bitpack import packed_size
from fewbits.errors import DecodeError
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32
from fewbits.rng import Rng

FORMATS = FLOAT32, BFLOAT16, FLOAT16
SOME = 13, 4097
MORE = 1, 7, 8, 9, 31, 63, 64, 65, 1000, 4095, 4096, 8191, 65_536, 70_003


def sections(count, format):
    return [np.zeros(packed_size(count, width), np.uint8) for width in (format.exponent, 1)]


def every_kind(test):
    for mark in (
        pytest.mark.parametrize("nearest", [0, 1]),
        pytest.mark.parametrize("format", FORMATS, ids=lambda own: own.name),
        pytest.mark.parametrize("kind", VECTORS),
    ):
        test = mark(test)
    return test


@every_kind
def test_bits_are_the_hosts(kind, format, nearest):
    for count in SOME:
        check(kind, count, format, Kernel(Kind.NATURAL, nearest))


@pytest.mark.soak
@every_kind
def test_bits_are_the_hosts_at_more_lengths(kind, format, nearest):
    for count in MORE:
        check(kind, count, format, Kernel(Kind.NATURAL, nearest))


def check(kind, count, format, kernel):
    rng = Rng.from_seed(count)
    x, parts = vector(kind, count, format, rng), sections(count, format)
    _, _, sent = run_both("encode", kernel, format, x, parts, rng.key)
    assert all(map(same_bits, parts, sent))
    y = np.zeros_like(x)
    _, there, _ = run_both("decode", kernel, format, y, parts)
    assert same_bits(y, there)
    totals = np.linspace(-1, 1, count, dtype=np.float32)
    _, there, _ = run_both("accumulate", kernel, format, totals, parts)
    assert same_totals(totals, there)


@pytest.mark.parametrize("format", FORMATS, ids=lambda own: own.name)
@pytest.mark.parametrize("place", [0, 5, 12])
def test_refuses_what_the_host_refuses(format, place):
    count, kernel = 13, Kernel(Kind.NATURAL)
    codes, signs = sections(count, format)
    signs[place // 8] |= 1 << place % 8  # on a zero
    there = [lent(codes), lent(signs)]
    row = Row(kernel, format, lent(np.zeros(count, format.bits)), tuple(there))
    with pytest.raises(DecodeError, match="a sign is set on a zero") as error:
        device().run_row("decode", row)
    assert error.value.row == 0


@pytest.mark.parametrize("format", FORMATS, ids=lambda own: own.name)
@pytest.mark.parametrize("section", [0, 1])
def test_refuses_bits_behind_the_end(format, section):
    count, parts = 13, sections(13, format)
    parts[section][-1] |= 0x80
    values = lent(np.zeros(count, format.bits))
    row = Row(Kernel(Kind.NATURAL), format, values, tuple(map(lent, parts)))
    if format.exponent == 8 and section == 0:  # whole bytes: it is the last value's code
        device().run_row("decode", row)
        return
    with pytest.raises(DecodeError, match="unused bits at the end"):
        device().run_row("decode", row)
