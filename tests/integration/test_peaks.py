"""Compressing and decompressing take a fixed scratch; `make soak` measures it at 2^24 values."""

import re

import pytest

import peaks
from peaks import EXEMPT, MEASURED, excess, is_exempt

VALUES = 1 << 20
QUICK = [name for name in MEASURED if not is_exempt(name) and not name.endswith("float16")]


def test_no_call_takes_more_than_scratch_and_what_a_stage_hands_on() -> None:
    """Copies of the vector, or arrays of its length, are far more at this length."""
    found = peaks.peaks(VALUES, QUICK)
    bad = {name: own for name, own in found.items() if excess(name, VALUES, own) > 1}
    assert not bad
    smallest = min(format.itemsize for name, (_, format) in MEASURED.items() if name in QUICK)
    assert VALUES * smallest > peaks.A_THREAD + peaks.NOISE, "a whole copy would be seen"


@pytest.mark.parametrize("pattern", EXEMPT)
def test_what_is_exempt_takes_more(pattern: str) -> None:
    name = next(name for name in MEASURED if re.search(pattern, name))
    assert excess(name, VALUES, peaks.peaks(VALUES, [name])[name]) > 1
