"""Lists of vectors: the frames and values of single calls, and errors that name the item."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import fewbits
from cases import sealed
from fewbits import DecodeError, EncodeError, LimitError, Rng, SpecError
from fewbits.core import quick

SPECS = ("natural", "natural:coder=rans", "float16", "sign", "top-k|natural", "hadamard|natural",
         "spherical", "sparse-dithering", "rand-k|standard-dithering:coder=rans")  # fmt: skip
SHAPES = ((1,), (40, 3), (), (257,), (0, 4), (5000,), (257,))


def vectors() -> list[Any]:
    draw = np.random.default_rng(2)
    dtypes = (np.float32, np.float64, np.float16)
    own = [draw.standard_normal(shape).astype(dtypes[at % 3]) for at, shape in enumerate(SHAPES)]
    return [*own, own[1].T, np.asfortranarray(own[1]), np.float32(3)]


@pytest.mark.parametrize("spec", SPECS)
def test_frames_are_those_of_single_calls(spec: str) -> None:
    arrays = vectors()
    for seed, root in ((5, Rng.from_seed(5)), (Rng.from_seed(9), Rng.from_seed(9))):
        single = [
            fewbits.compress(x, spec, seed=root.fork(number)) for number, x in enumerate(arrays)
        ]
        assert fewbits.compress_many(arrays, spec, seed=seed) == single
        assert fewbits.compress_many(iter(arrays), spec, seed=seed, threads=1) == single
        out = bytearray(sum(fewbits.largest_frame(x, spec) for x in arrays) + 3)
        parts = fewbits.compress_many(arrays, spec, seed=seed, out=out)
        assert [type(part) for part in parts] == [memoryview] * len(arrays)
        assert parts == single
        assert (
            fewbits.compress(arrays[0], spec, seed=5)
            == fewbits.compress_many(arrays[:1], spec, seed=5)[0]
        )
    values = [fewbits.decompress(frame) for frame in single]
    quick._known.clear()
    for frames in (single, parts, iter(parts)):
        found = fewbits.decompress_many(frames)
        for own, expected in zip(found, values, strict=True):
            assert (own.dtype, own.shape) == (expected.dtype, expected.shape)
            assert own.tobytes() == expected.tobytes()
    targets = [np.full_like(own, 7) for own in values]
    found = fewbits.decompress_many(single, out=targets)
    for own, target, expected in zip(found, targets, values, strict=True):
        assert own is target
        assert target.tobytes() == expected.tobytes()


def test_without_a_seed_streams_are_fresh_and_differ() -> None:
    arrays = [np.full(400, 1.3, np.float32)] * 3
    frames = fewbits.compress_many(arrays, "natural") + fewbits.compress_many(arrays, "natural")
    assert len(set(frames)) == 6


def test_threads_share_the_items_and_change_nothing() -> None:
    draw = np.random.default_rng(4)
    sizes = (300_000, 10, 250_000, 600_000, 1, 70_000, 0, 260_000)
    arrays = [draw.standard_normal(size).astype(np.float32) for size in sizes]
    for spec in ("natural", "natural:coder=rans"):
        one = fewbits.compress_many(arrays, spec, seed=1, threads=1)
        assert fewbits.compress_many(arrays, spec, seed=1, threads=4) == one
        alone, several = (fewbits.decompress_many(one, threads=n) for n in (1, 4))
        expected = map(fewbits.decompress, one)
        for own, other, single in zip(alone, several, expected, strict=True):
            assert own.tobytes() == other.tobytes() == single.tobytes()


def test_an_error_names_the_item() -> None:
    good = np.ones(9, np.float32)
    bad = np.float32([1, np.nan])
    with pytest.raises(EncodeError, match=r"^item 1: 1 of 2 values are NaN or infinite"):
        fewbits.compress_many([good, bad], "natural")
    assert len(fewbits.compress_many([good, bad], "natural", nonfinite="carry")) == 2
    with pytest.raises(EncodeError, match=r"^item 2: x must be a NumPy array"):
        fewbits.compress_many([good, good, [1.0]], "natural")
    with pytest.raises(EncodeError, match=r"^item 0: cannot compress dtype int64"):
        fewbits.compress_many([np.arange(3), good], "natural")
    with pytest.raises(SpecError, match=r"^item 1: coder=paper is for at most 4096 values"):
        fewbits.compress_many([good, np.ones(5000, np.float32)], "sparse-dithering:coder=paper")
    with pytest.raises(SpecError, match=r"^out has 10 bytes, natural may need"):
        fewbits.compress_many([good, good], "natural", out=bytearray(10))
    room = np.zeros(400, np.float32)
    with pytest.raises(SpecError, match=r"^item 1: out overlaps the input"):
        fewbits.compress_many([good, room[:9]], "natural", out=room)
    with pytest.raises(SpecError, match="nonfinite must be"):
        fewbits.compress_many([], "natural", nonfinite="skip")


def test_a_bad_frame_is_named_wherever_it_stands() -> None:
    frames = fewbits.compress_many(vectors(), "natural", seed=3)
    for number, known in product(range(len(frames)), (False, True)):
        quick._known.clear()
        if known:
            fewbits.decompress_many(frames)
        frame = bytearray(frames[number])
        frame[-1] ^= 1
        damaged = [*frames[:number], bytes(frame), *frames[number + 1 :]]
        with pytest.raises(DecodeError, match=rf"^item {number}: checksum is"):
            fewbits.decompress_many(damaged)
    frame = bytearray(fewbits.compress(np.ones(9, np.float32), "natural"))
    frame[-5] |= 0x80  # padding of the sign plane
    with pytest.raises(DecodeError, match=r"^item 1: unused bits"):
        fewbits.decompress_many([frames[0], sealed(bytes(frame[:-4]))])
    with pytest.raises(SpecError, match=r"^item 1: a frame is bytes"):
        fewbits.decompress_many([frames[0], 3])


def test_limits_hold_for_all_frames_together() -> None:
    frames = fewbits.compress_many([np.ones(30, np.float32)] * 4, "natural")
    for _ in range(2):
        assert len(fewbits.decompress_many(frames, max_elements=120)) == 4
        with pytest.raises(LimitError, match=r"^item 3: .* claim 120 elements together, the limit"):
            fewbits.decompress_many(frames, max_elements=119)
        with pytest.raises(LimitError, match=r"^item 0: .* claim"):
            fewbits.decompress_many(frames, max_elements=29)
    with pytest.raises(SpecError, match="max_elements must be"):
        fewbits.decompress_many(frames, max_elements=-1)


def test_out_must_fit_every_frame() -> None:
    frames = fewbits.compress_many([np.ones(30, np.float32)] * 2, "natural")
    first, other = np.zeros(30, np.float32), np.zeros(31, np.float32)
    with pytest.raises(SpecError, match="out has 1 arrays for 2 frames"):
        fewbits.decompress_many(frames, out=[first])
    for _ in range(2):
        with pytest.raises(DecodeError, match=r"^item 1: the frame holds float32 \(30,\), out is"):
            fewbits.decompress_many(frames, out=[first, other])


def test_one_warning_tells_of_all_that_saturates() -> None:
    large = np.full(5, 3e38, np.float32)
    text = "10 values of 2 items, the first of which is item 1, exceed the range of natural"
    with pytest.warns(fewbits.SaturationWarning, match=text) as caught:
        fewbits.compress_many([np.ones(3, np.float32), large, large], "natural")
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_tensors_come_and_go() -> None:
    torch = pytest.importorskip("torch")
    tensors = [torch.linspace(-1, 2, 50), torch.ones(3, 4, dtype=torch.bfloat16)]
    frames = fewbits.compress_many(tensors, "identity")
    for _ in range(2):
        for own, x in zip(fewbits.decompress_many(frames, to="torch"), tensors, strict=True):
            assert torch.equal(own, x)
    assert fewbits.compress_many([], "natural") == fewbits.decompress_many([]) == []


@pytest.mark.parametrize("single", [np.ones(3, np.float32), np.ones((2, 3), np.float32)])
def test_one_array_is_not_taken_apart(single: np.ndarray) -> None:
    with pytest.raises(SpecError, match=r"^compress_many takes a list of arrays, got one ndarray"):
        fewbits.compress_many(single, "natural")
    frame = fewbits.compress(single, "natural")
    for given in (frame, bytearray(frame), memoryview(frame)):
        with pytest.raises(SpecError, match=r"^decompress_many takes a list of frames, got one "):
            fewbits.decompress_many(given)
