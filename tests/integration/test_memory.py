"""How much memory and work decoding takes: what SECURITY.md and docs/format.md promise."""

import math
import re
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fewbits
from cases import DTYPES
from fewbits import DecodeError, registry
from fewbits.backend.kinds import composed, stages
from fewbits.backend.library import MAX_STAGES
from fewbits.core.stage import Stage
from fewbits.operators.hadamard import Hadamard
from fewbits.reference import directions
from fewbits.reference.formats import FORMATS, Format

SECURITY = (Path(__file__).parents[2] / "SECURITY.md").read_text("utf-8")
ROW = re.compile(r"^\| `([^`]+)` \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", re.MULTILINE)
STATED = {spec.replace("¦", "|"): list(map(float, own)) for spec, *own in ROW.findall(SECURITY)}
SCRATCH = 8 << 20  # bytes that do not grow with the vector
TOLERANCE = 0.1  # of a multiple: stated ones are rounded up to one decimal
NOISE = 0.02  # the interpreter's own small objects
SMALL, LARGE = 1 << 18, 1 << 19


@cache
def frame_of(spec: str, format: Format, d: int) -> bytes:
    """A frame of normal values, of zeros where those are slow to write or to read."""
    slow = any(name in spec for name in ("paper", "sign:block"))
    x = np.random.default_rng(1).standard_normal(d) * (not slow)
    return bytes(fewbits.compress(x.astype(DTYPES[format]), spec, seed=1))


def peak(spec: str, format: Format, d: int) -> int:
    """Bytes that NumPy and Python have at most while a frame is decoded by one thread.

    What other threads allocate meanwhile only adds, so the least of two counts.
    """
    frame = frame_of(spec, format, d)
    directions.normal_table()  # made once for all frames
    return min(_peak(frame, d) for _ in range(2))


def _peak(frame: bytes, d: int) -> int:
    tracemalloc.start()
    try:
        y = fewbits.decompress(frame, threads=1)
        assert y.size == d
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def grown(spec: str, format: Format) -> float:
    """The memory for each further byte of the result."""
    more = peak(spec, format, LARGE) - peak(spec, format, SMALL)
    return more / ((LARGE - SMALL) * format.itemsize)


MET = [
    "natural:coder=rans", "natural-dithering:block=8,coder=rans", "standard-dithering:levels=32767",
    "standard-dithering:scale=natural,block=8", "sign:block=8", "sparse-dithering",
    "sparse-dithering:block=8", "sparse-dithering:block=1", "spherical:block=2",
    "hadamard:block=2|identity",
]  # fmt: skip
"""Settings that take no more than the output, beside each operator's own defaults."""


def unstated() -> list[str]:
    """Everything that the table does not name, as a contributor has it who changed no document."""
    named = {part.partition(":")[0] for spec in STATED for part in spec.split("|")}
    others = [cls for name, cls in registry.catalogue().classes().items() if name not in named]
    return [f"{cls.name}|identity" if issubclass(cls, Stage) else cls.name for cls in others]


ALL = STATED | {spec: [1.0] * len(FORMATS) for spec in (*MET, *unstated())}


@pytest.mark.parametrize("spec", ALL)
def test_memory_is_the_stated_multiple_of_the_result(spec: str) -> None:
    for format, stated in zip(FORMATS, ALL[spec], strict=True):
        found = grown(spec, format)
        assert stated - TOLERANCE <= found <= stated + NOISE, (format.name, found)
        fixed = peak(spec, format, SMALL // 4) - stated * SMALL // 4 * format.itemsize
        assert fixed <= SCRATCH, (format.name, fixed)


COMPOSED = [
    "hadamard|top-k:fraction=0.999|rand-k:fraction=0.999|identity",
    "rand-k:fraction=0.999|spherical:block=2",
    "top-k:fraction=0.999|sparse-dithering:block=1",
    "hadamard|hadamard:block=8|hadamard:signs=private|hadamard|hadamard|hadamard|hadamard|sign",
]


@pytest.mark.parametrize("spec", COMPOSED)
def test_a_composition_takes_one_vector_more_than_its_costliest_part(spec: str) -> None:
    for number, format in enumerate(FORMATS):
        parts = {part.partition(":")[0] for part in spec.split("|")}
        own = (
            multiples[number]
            for row, multiples in ALL.items()
            if parts & {part.partition(":")[0] for part in row.split("|")}
        )
        assert grown(spec, format) <= 1 + max(own)


def small_frames() -> dict[str, bytes]:
    """Frames of less than 200 bytes that stand for as many values as they like."""
    d, frames = LARGE, {}
    for spec in (
        "sign", "natural:coder=rans", "sparse-dithering", "spherical:alpha=0.9,block=64",
        "standard-dithering:coder=rans", "rand-k:fraction=1e-6|natural", "rand-k:fraction=1|sign",
        "top-k:fraction=1|sign", "hadamard|sign", "top-k:fraction=1e-6|sign",
    ):  # fmt: skip
        frames[spec] = bytes(fewbits.compress(np.zeros(d, np.float32), spec, seed=1))
    return frames


@pytest.mark.parametrize("spec", small_frames())
def test_few_bytes_take_no_more_than_the_stated_memory(spec: str) -> None:
    frame = small_frames()[spec]
    assert len(frame) < 400
    worst = 1 + max(own[0] for own in STATED.values())
    tracemalloc.start()
    try:
        y = fewbits.decompress(frame, max_elements=LARGE, threads=1)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most <= worst * y.nbytes + SCRATCH
    tracemalloc.start()
    try:
        with pytest.raises(fewbits.LimitError):
            fewbits.decompress(frame, max_elements=LARGE - 1, threads=1)
        assert tracemalloc.get_traced_memory()[1] < 1 << 16, "before anything is allocated"
    finally:
        tracemalloc.stop()


# ---- work ----


class Counted:
    """Counts the values that stages and operators work on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values = 0
        join, inner = stages.join, composed._inner
        monkeypatch.setattr(stages, "join", self._counted(join, lambda *own: own[4].size))
        monkeypatch.setattr(composed, "_inner", self._counted(inner, lambda *own: own[1].size))

    def _counted(self, work: Callable[..., Any], size: Callable[..., int]) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            self.values += size(*given)
            return work(*given)

        return counted


@pytest.mark.parametrize("stage", ["rand-k:fraction=1", "top-k:fraction=1", "hadamard"])
@pytest.mark.parametrize("stages_before", range(1, MAX_STAGES))
def test_work_is_at_most_the_elements_times_the_stages(
    stage: str, stages_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    d = 5000
    frame = fewbits.compress(np.ones(d, np.float32), "|".join([stage] * stages_before + ["sign"]))
    counted = Counted(monkeypatch)
    fewbits.decompress(frame)
    assert counted.values == (stages_before + 1) * d <= MAX_STAGES * d


def test_more_stages_are_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    good = fewbits.compress(np.ones(5000, np.float32), "|".join(["hadamard"] * 7 + ["sign"]))
    more = bytearray(good)
    more[8] += 1  # the number of stages
    at = 10 + 2  # behind the fixed header and the extent
    more[at:at] = more[at : at + 3]
    counted = Counted(monkeypatch)
    with pytest.raises(DecodeError, match="9 stages, 1 to 8 are allowed"):
        fewbits.decompress(bytes(more))
    assert counted.values == 0
    assert fewbits.decompress(good).size == 5000
    assert counted.values


def test_a_stage_that_hands_on_more_than_it_gets_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = fewbits.compress(np.ones(50, np.float32), "hadamard|sign", seed=1)
    monkeypatch.setattr(Hadamard, "reduced", lambda self, d: d + 1)
    with pytest.raises(DecodeError, match="hands on 51 of 50 values"):
        fewbits.decompress(frame)


def test_short_blocks_of_a_stream_look_at_few_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on codes of thousands must not make every block look that far."""
    spec = "sparse-dithering:nu=1e-9,coder=paper,block=1"
    frame = fewbits.compress(np.ones(3000), spec, seed=1)
    looked, unpackbits = [0], np.unpackbits

    def counted(data: np.ndarray, *given: Any, **named: Any) -> np.ndarray:
        looked[0] += data.size
        return unpackbits(data, *given, **named)

    monkeypatch.setattr(np, "unpackbits", counted)
    fewbits.decompress(frame)
    assert looked[0] <= 8 * len(frame)
    assert math.isfinite(fewbits.decompress(frame).sum())
