"""Frames in one native call: the same bytes, values and errors as the general way."""

import threading
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import fewbits
from cases import array, sealed
from fewbits import DecodeError, EncodeError, LimitError, SpecError, codec, registry
from fewbits.core import quick
from fewbits.core.plan import plan_of
from fewbits.reference.formats import FLOAT32, FORMATS

SPECS = (
    *registry.all_example_specs(70_001),
    "top-k:fraction=0.3|natural:coder=rans",
    "top-k|float16",
    "top-k|rand-k|identity",
)
ONE_CALL = {"natural", "natural:coder=rans", "float16", "bfloat16", "identity", "sign",
            "natural-dithering", "standard-dithering", "top-k|natural",
            "natural-dithering:coder=rans", "standard-dithering:coder=rans", "sparse-dithering",
            "sparse-dithering:rounding=stochastic",
            "sparse-dithering:rounding=subtractive"}  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    quick._known.clear()
    yield
    quick._known.clear()


def values(format: Any, shape: tuple[int, ...], seed: int = 3) -> Any:
    count = int(np.prod(shape))
    x = np.random.default_rng(seed).standard_normal(count) * 2.0 ** np.arange(count).clip(0, 6)
    return array(x, format).reshape(shape)


def outcome(work: Any) -> object:
    """What a call returns or raises."""
    try:
        result = work()
    except (DecodeError, SpecError, EncodeError) as error:
        return type(error), str(error)
    return result.tobytes(), result.dtype, result.shape


@pytest.mark.parametrize("spec", SPECS)
def test_both_ways_write_the_same_bytes(spec: str) -> None:
    operator, calls = fewbits.operator(spec), set()
    for format, shape in product(FORMATS, ((1,), (7,), (3, 5, 17), (256,), (1000,), (70_001,))):
        x = values(format, shape)
        general = codec.general_frame(x, operator, 5, None, 1)
        out = bytearray(general.plan.room)
        for target in (None, out):
            done = quick.compressed(x, operator, 5, target, 1)
            assert done is None or done.frame == general.frame
            calls |= set() if done is None else {(format, shape)}
        assert fewbits.compress(x, spec, seed=5) == general.frame
    assert (FLOAT32, (1000,)) in calls or spec not in ONE_CALL


@pytest.mark.parametrize("spec", SPECS)
def test_both_ways_read_the_same_values(spec: str) -> None:
    calls = set()
    for format, shape in product(FORMATS, ((1,), (7,), (3, 5, 17), (256,), (1000,), (70_001,))):
        frame = fewbits.compress(values(format, shape), spec, seed=5)
        assert quick.known(frame) is None
        general = fewbits.decompress(frame)
        again, out = fewbits.decompress(bytearray(frame)), np.empty_like(general)
        assert fewbits.decompress(memoryview(frame), out=out) is out
        for found in (again, out):
            assert (found.tobytes(), found.dtype) == (general.tobytes(), general.dtype)
            assert found.shape == shape
        one = quick.decompressed(frame, 10**6, None, "numpy", 1)
        calls |= set() if one is None else {(format, shape)}
    assert (FLOAT32, (1000,)) in calls or spec not in ONE_CALL


def test_what_one_call_cannot_judge_goes_the_general_way() -> None:
    for spec, format in product(("float16", "bfloat16"), FORMATS):
        plan = plan_of(fewbits.operator(spec), format, (9,))
        assert plan.reads == format.holds(next(own for own in FORMATS if own.name == spec))
    assert not plan_of(fewbits.operator("top-k|float16"), FLOAT32, (100,)).reads
    assert not plan_of(fewbits.operator("natural"), FLOAT32, (0, 3)).reads


@pytest.mark.parametrize(
    "spec", ["natural", "natural:coder=rans", "float16", "sign", "top-k:fraction=0.2|natural"]
)
def test_damage_is_told_in_the_same_words_where_the_kind_is_known(spec: str) -> None:
    x = values(FLOAT32, (3, 11))
    frame = fewbits.compress(x, spec, seed=5)
    damaged = [frame[:cut] for cut in range(len(frame))] + [frame + b"\0"]
    for at, bit in product(range(len(frame)), (0, 3, 7)):
        other = bytearray(frame)
        other[at] ^= 1 << bit
        damaged += [bytes(other), sealed(bytes(other[:-4]))]
    for bad in damaged:
        quick._known.clear()
        cold = outcome(lambda bad=bad: fewbits.decompress(bad, max_elements=1000))
        fewbits.decompress(frame)
        assert quick.known(frame)
        assert outcome(lambda bad=bad: fewbits.decompress(bad, max_elements=1000)) == cold
        held = bytearray(bad)
        assert outcome(lambda held=held: fewbits.decompress(held, max_elements=1000)) == cold


@pytest.mark.parametrize("spec", ["natural:coder=rans", "standard-dithering:coder=rans"])
@pytest.mark.parametrize("start", [0, 65_536])
def test_the_version_is_judged_where_both_are_known(spec: str, start: int) -> None:
    """A frame has the oldest version that its blocks allow, whichever block needs a later one."""
    x = np.ones(start + 1000, np.float32)
    mixed = x.copy()
    mixed[start:] = values(FLOAT32, (1000,)) if start == 0 else np.repeat([1.0, 0.5, 0], 334)[:1000]
    operator, frames = fewbits.operator(spec), []
    for own in (x, mixed):
        done = quick.compressed(own, operator, 5, None, 1)
        assert done is not None
        assert done.frame == codec.general_frame(own, operator, 5, None, 1).frame
        frames.append(done.frame)
        fewbits.decompress(done.frame, threads=1)
    assert [frame[4] for frame in frames] == [1, 2]
    words = ("wire version 2 where 1 suffices", "a coded block is of an unknown kind")
    for frame, said in zip(frames, words, strict=True):
        other = sealed(bytes([*frame[:4], 3 - frame[4], *frame[5:-4]]))
        assert quick.known(other)
        assert quick.decompressed(frame, 10**6, None, "numpy", 1) is not None
        assert quick.decompressed(other, 10**6, None, "numpy", 1) is None
        with pytest.raises(DecodeError, match=said):
            fewbits.decompress(other, threads=1)


def test_arguments_are_judged_where_the_kind_is_known() -> None:
    x = values(FLOAT32, (40,))
    frame = fewbits.compress(x, "identity")
    for _ in range(2):
        with pytest.raises(LimitError, match="claims 40 elements, the limit is 39"):
            fewbits.decompress(frame, max_elements=39)
        for out in (np.empty(39, np.float32), np.empty(40), np.empty((40, 1), np.float32)):
            with pytest.raises(DecodeError, match="out is "):
                fewbits.decompress(frame, out=out)
        fixed = np.empty(40, np.float32)
        fixed.flags.writeable = False
        for out in (fixed, np.empty(80, np.float32)[::2]):
            with pytest.raises(SpecError, match="contiguous and writable"):
                fewbits.decompress(frame, out=out)
        room = np.zeros(4 * 60, np.uint8)
        room[: len(frame)] = np.frombuffer(frame, np.uint8)
        with pytest.raises(SpecError, match="overlaps"):
            fewbits.decompress(room[: len(frame)], out=room[8:168].view(np.float32))
        assert np.array_equal(fewbits.decompress(frame), x)
        with pytest.raises(SpecError, match="threads must be"):
            fewbits.decompress(frame, threads=0)
    with pytest.raises(SpecError, match="overlaps"):
        fewbits.compress(x[:20], "natural", out=x)
    with pytest.raises(SpecError, match=r"out has 10 bytes, natural may need \d+: see largest"):
        fewbits.compress(x, "natural", out=bytearray(10))
    with pytest.raises(SpecError, match="out must be writable"):
        fewbits.compress(x, "natural", out=bytes(400))


def test_values_that_are_not_finite_or_too_large_are_met_as_before() -> None:
    x = values(FLOAT32, (40,))
    x[7], x[11] = np.nan, np.inf
    with pytest.raises(EncodeError, match="2 of 40 values are NaN or infinite"):
        fewbits.compress(x, "natural")
    frame = fewbits.compress(x, "natural", seed=1, nonfinite="carry")
    for _ in range(2):
        assert np.isnan(fewbits.decompress(frame)).sum() == 2
        assert quick.known(frame) is None
        fewbits.decompress(fewbits.compress(values(FLOAT32, (40,)), "natural"))
    large = np.full(5, 3e38, np.float32)
    with pytest.warns(fewbits.SaturationWarning, match="5 of 5 values exceed") as caught:
        fewbits.compress(large, "natural")
    assert caught[0].filename == __file__


def test_tensors_take_one_call_too() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.nn.Parameter(torch.linspace(-3, 5, 24, dtype=dtype).reshape(4, 6))
        operator = fewbits.operator("natural")
        done = quick.compressed(x, operator, 9, None, None)
        assert done is not None
        assert done.frame == codec.general_frame(x, operator, 9, None, None).frame
        first = fewbits.decompress(done.frame, to="torch")
        again, out = fewbits.decompress(done.frame, to="torch"), torch.zeros_like(first)
        fewbits.decompress(done.frame, out=out)
        assert torch.equal(first, again)
        assert torch.equal(first, out)
        assert again.dtype == dtype
        across = torch.linspace(-3, 5, 24, dtype=dtype).reshape(6, 4).T
        assert quick.compressed(across, operator, 9, None, None) is None


def test_what_is_kept_is_bounded() -> None:
    for d in range(1, quick._KEPT + 50):
        x = np.ones(d, np.float32)
        assert fewbits.decompress(fewbits.compress(x, "natural")).tolist() == x.tolist()
    assert 0 < len(quick._known) <= quick._KEPT
    info = plan_of.cache_info()
    assert info.currsize <= info.maxsize


def test_threads_do_not_share_what_a_call_needs() -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        for turn in range(200):
            d = 1 + (number * 37 + turn) % 90
            x = np.full((d,), 2.0 ** (number - 3), np.float32)
            frame = fewbits.compress(x, "natural:coder=rans" if turn % 2 else "natural")
            if not np.array_equal(fewbits.decompress(frame), x):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
