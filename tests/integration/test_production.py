"""Which rows still run the NumPy specification on whole vectors: none but those that are named."""

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import fewbits
from cases import ROW_IDS, ROWS, array

VALUES = 9001
REFERENCE = ("/fewbits/reference/", "/fewbits/coding/")
SLOW = {
    "coder-paper": "arithmetic on integers of thousands of bits is Python's own",
}


def named(name: str) -> bool:
    return any(re.search(pattern, name) for pattern in SLOW)


class Watched:
    """Functions of the specification that are called with long arrays."""

    def __init__(self) -> None:
        self.met: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not any(part in code.co_filename for part in REFERENCE):
            return
        given = list(frame.f_locals.values())
        if any(isinstance(own, np.ndarray) and own.size >= VALUES // 2 for own in given):
            self.met.add(f"{Path(code.co_filename).name}:{code.co_name}")


def met(number: int) -> set[str]:
    case, format = ROWS[number]
    x = array(np.random.default_rng(1).standard_normal(VALUES), format)
    watched = Watched()
    sys.setprofile(watched)
    try:
        fewbits.decompress(fewbits.compress(x, case.operator, seed=1, threads=1), threads=1)
    finally:
        sys.setprofile(None)
    return watched.met


@pytest.mark.parametrize("number", range(len(ROWS)), ids=ROW_IDS)
def test_only_named_rows_run_the_specification(number: int) -> None:
    assert named(ROW_IDS[number]) or not met(number)


@pytest.mark.parametrize("pattern", SLOW)
def test_named_rows_do(pattern: str) -> None:
    numbers = [number for number, name in enumerate(ROW_IDS) if re.search(pattern, name)]
    assert any(met(number) for number in numbers)
