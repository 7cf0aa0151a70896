"""Mutated frames through `decompress`: it returns a vector or raises `DecodeError`, nothing else.

Two families, both of frames of every registered operator, stage, coder and dtype. Raw mutations
change the bytes, so the checksum meets nearly all of them. Drafts change fields: headers with
arbitrary values around arbitrary sections, parameters at the ends of their types among them,
sealed with a right checksum, so that every check behind it is reached. No error may be left to the
net below all checks. What is accepted must be canonical: compressing the result gives the same
bytes, or the same codes in coded blocks of another form.

The gate runs a few thousand of each; `python tests/fuzz/test_fuzz.py --mutations N` runs more.
"""

import argparse
import contextlib
import math
import random
import re
import struct
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import fewbits
import native_tables as native
from cases import seen_by_a_check
from fewbits import DecodeError, FrameInfo, SpecError, registry
from fewbits.backend import library as _native
from fewbits.coding import rans
from fewbits.core import parameters
from fewbits.wire import frame as wire

HERE = Path(__file__).parent
CORPUS = sorted((HERE / "corpus" / "frame").glob("*.bin"))
GOLDEN = sorted((HERE.parent / "golden" / "good").rglob("*.bin"))
LIMIT = 4096  # elements
IN_GATE = 3000  # mutations a family

# Every registered operator and stage with each of its choices, and what choices alone do not show.
SPECS = (
    *registry.all_example_specs(41),
    "sparse-dithering:coder=paper,block=16", "sparse-dithering:block=7,rounding=subtractive",
    "natural-dithering:levels=5,block=8,coder=rans", "standard-dithering:levels=1000,p=2",
    "sign:block=8", "spherical:block=3,alpha=0.7", "hadamard:block=8|sign",
    "top-k:fraction=0.7|rand-k:fraction=0.5|sparse-dithering", "rand-k:fraction=1|spherical",
    "hadamard|hadamard:signs=private|top-k|rand-k|top-k:fraction=1|hadamard:block=2|rand-k|sign",
)  # fmt: skip
CANONICAL = ("identity", "float16", "bfloat16", "natural")  # one frame for each vector
DTYPES = {1: "float32", 2: "float64", 3: "float16", 4: ml_dtypes.bfloat16}
# Floats at the ends of binary64, of parameters' ranges, and those that the wire forbids.
EXTREME = (5e-324, 1e-323, 2.2e-308, 1e-300, 1e-160, 1e-30, 1e-9, 0.01, 0.1, 0.5, 0.99, 1.0, 1.5,
           2.0, 1e10, 1e154, 1e300, 1.7e308, 0.0, -0.0, -5e-324, -1.0, -1.7e308,
           float("nan"), float("inf"), float("-inf"))  # fmt: skip
ENDS = (5e-324, 1.7e308, -0.0)
INTEGERS = (0, 1, 2, 3, 7, 8, 16, 64, 127, 128, 1024, 4096, 32767, 65535, 65536, 2**31, 2**32,
            2**62, 2**63 - 1, -1, -7, -(2**63))  # fmt: skip
NOTABLE = (0, 1, 2, 7, 8, 31, 32, 33, 127, 128, 255, 256, 4096, 65535, 65536, 2**31, 2**32 - 1,
           2**32, 2**62, 2**63, 2**64 - 1)  # fmt: skip


@cache
def good_frames() -> tuple[bytes, ...]:
    """A frame of every spec and dtype at several shapes, then the golden ones."""
    source = np.random.default_rng(5)
    frames = []
    for spec in SPECS:
        for dtype in DTYPES.values():
            for shape in ((), (0,), (1,), (7,), (33,), (3, 0, 2), (5, 41)):
                x = source.standard_normal(shape).astype(dtype)
                if x.size > 100:
                    x[0, :3] = np.nan, np.inf, 0.0
                with contextlib.suppress(SpecError):  # too fine for the dtype
                    frames.append(fewbits.compress(x, spec, seed=3, nonfinite="carry"))
    small = (path.read_bytes() for path in GOLDEN if path.stat().st_size <= 4096)
    return tuple(bytes(frame) for frame in (*frames, *small))


def sealed(body: bytes) -> bytes:
    return body + native.crc32c(np.frombuffer(body, np.uint8)).to_bytes(4, "little")


# ---- raw mutations ----


def _flip(data: bytearray, rng: random.Random, frames: tuple[bytes, ...]) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(data: bytearray, rng: random.Random, frames: tuple[bytes, ...]) -> None:
    width = rng.choice((1, 2, 4, 8))
    at = rng.randrange(len(data))
    value = (rng.choice(NOTABLE) % 2 ** (8 * width)).to_bytes(width, "little")
    data[at : at + width] = value[: len(data) - at]


def _remove(data: bytearray, rng: random.Random, frames: tuple[bytes, ...]) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.choice((1, 1, 2, 4, 16))]


def _repeat(data: bytearray, rng: random.Random, frames: tuple[bytes, ...]) -> None:
    at, size = rng.randrange(len(data)), rng.choice((1, 2, 4, 16))
    data[at:at] = data[at : at + size]


def _insert(data: bytearray, rng: random.Random, frames: tuple[bytes, ...]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice((1, 1, 2, 8)))


def _cut(data: bytearray, rng: random.Random, frames: tuple[bytes, ...]) -> None:
    del data[rng.randrange(len(data)) :]


def _splice(data: bytearray, rng: random.Random, frames: tuple[bytes, ...]) -> None:
    other = rng.choice(frames)
    data[rng.randrange(len(data)) :] = other[rng.randrange(len(other)) :]


RAW = (_flip, _flip, _overwrite, _remove, _repeat, _insert, _cut, _splice)


def raw_mutations(rng: random.Random) -> Iterator[bytes]:
    """Good frames with one to four changes anywhere; a quarter get a right checksum again."""
    frames = good_frames()
    while True:
        data = bytearray(rng.choice(frames))
        for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
            if data:
                rng.choice(RAW)(data, rng, frames)
        yield sealed(bytes(data[:-4])) if rng.random() < 0.25 else bytes(data)


# ---- drafts: anything behind a right checksum ----


Stages = list[tuple[int, list[tuple[int, int, bytes]]]]


@dataclass
class Draft:
    """A frame's fields before they are bytes; nothing keeps them from contradicting each other."""

    dtype: int
    shape: list[int]
    sections: list[bytes]
    version: int = 1
    flags: int | None = None
    nonfinite: bool = False
    lengths: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    stages: Stages = field(default_factory=list)
    tail: bytes = b""

    def encode(self) -> bytes:
        words = [*self.shape, *self.lengths]
        width = next((n for n in (1, 2, 4) if max(words, default=0) < 1 << 8 * n), 8)
        flags = width.bit_length() - 1 | (4 if self.nonfinite else 0)
        flags = flags if self.flags is None else self.flags
        width = 1 << (flags & 3)
        counts = {
            "dimensions": len(self.shape),
            "stages": len(self.stages),
            "sections": len(self.lengths),
        } | self.counts
        parts = [b"fewb", bytes((self.version, flags, self.dtype)), bytes(counts.values())]
        parts += [(word % 2 ** (8 * width)).to_bytes(width, "little") for word in self.shape]
        for code, own in self.stages:
            parts.append(struct.pack("<HB", code, len(own)))
            parts += [bytes((number, kind)) + value for number, kind, value in own]
        parts += [(word % 2 ** (8 * width)).to_bytes(width, "little") for word in self.lengths]
        return sealed(b"".join((*parts, *self.sections, self.tail)))


def draft_of(frame: bytes) -> Draft:
    """The fields of a good frame."""
    parsed = wire.parse(np.frombuffer(frame, np.uint8), 1 << 20)
    header = parsed.header
    stages = [
        (stage.code, [(own.number, int(own.type), packed_value(own)) for own in stage.parameters])
        for stage in header.stages
    ]
    sections = [section.tobytes() for section in parsed.sections]
    return Draft(
        header.format.code, list(header.shape), sections, version=header.version,
        nonfinite=header.nonfinite, lengths=list(header.lengths), stages=stages,
    )  # fmt: skip


def packed_value(own: wire.Parameter) -> bytes:
    form = {1: "<B", 2: "<q", 3: "<d", 4: "<16s"}[int(own.type)]
    return struct.pack(form, own.value)


@cache
def frames_by_class() -> tuple[tuple[bytes, ...], ...]:
    """Good frames of each operator and each stage, so that all are drafted as often."""
    own: dict[int, list[bytes]] = {}
    for frame in good_frames():
        for code, _ in draft_of(frame).stages:
            own.setdefault(code, []).append(frame)
    return tuple(tuple(frames) for frames in own.values())


def plausible_draft(rng: random.Random) -> Draft:
    """A good frame's fields, or other values of its codes, another count, another dtype."""
    draft = draft_of(rng.choice(rng.choice(frames_by_class())))
    what = rng.random()
    if what < 0.3 and draft.sections:
        at = rng.randrange(len(draft.sections))
        draft.sections[at] = _others(rng, draft.sections[at])
    elif what < 0.4:
        draft.nonfinite = rng.random() < 0.5
    return draft


def _others(rng: random.Random, section: bytes) -> bytes:
    """Other bytes of the same length: noise, mostly zeros, or the same with one byte changed."""
    if rng.random() < 0.4 and section:
        data = bytearray(section)
        data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data)
    keep = rng.choice((1.0, 0.3, 0.03))
    return bytes(rng.randrange(256) if rng.random() < keep else 0 for _ in section)


CLASSES = list(registry.catalogue().classes().values())


def extreme_parameter(rng: random.Random, kind: int) -> bytes:
    """The value of a parameter at the ends of its type."""
    if kind == 3:
        return struct.pack("<d", rng.choice(rng.choice((ENDS, EXTREME))))
    if kind == 2:
        return struct.pack("<q", rng.choice(INTEGERS))
    return bytes((rng.choice((0, 1, 2, 3, 255)),)) if kind == 1 else rng.randbytes(16)


def _own_parameters(draft: Draft, rng: random.Random) -> None:
    """Give a stage extreme values of the parameters that its class really has."""
    at = rng.randrange(len(draft.stages))
    code, own = draft.stages[at]
    known = [field_ for cls in CLASSES if cls.code == code for field_ in parameters.fields(cls)]
    numbers = [field_ for field_ in known if not field_.choices]
    given = {number: (number, kind, value) for number, kind, value in own}
    for field_ in rng.sample(known, min(len(known), 1)) + rng.sample(numbers, min(len(numbers), 1)):
        kind = int(field_.type)
        given[field_.number] = field_.number, kind, extreme_parameter(rng, kind)
    draft.stages[at] = code, [given[number] for number in sorted(given)]


def _put_stage_before(draft: Draft, rng: random.Random) -> None:
    """A stage with its section, if it is one that hands all values on."""
    code = rng.choice((10, 11, 12))
    fraction = [(0, 3, struct.pack("<d", rng.choice((1.0, 1.0, *EXTREME))))]
    draft.stages.insert(0, (code, fraction if code != 12 else []))
    if code != 12:
        draft.sections.insert(0, rng.randbytes(16) if code == 11 else b"")
    draft.lengths = [len(section) for section in draft.sections]


def _parameter(rng: random.Random) -> tuple[int, int, bytes]:
    kind = rng.choice((0, 1, 1, 2, 3, 3, 4, 5))
    value = extreme_parameter(rng, kind) if kind in (1, 2, 3, 4) else bytes(1)
    return rng.choice((0, 0, 1, 2, 3, 4, 255)), kind, value


def _other_word(words: list[int], rng: random.Random) -> None:
    if words:
        at = rng.randrange(len(words))
        words[at] = rng.choice((rng.choice(NOTABLE), max(0, words[at] + rng.choice((-1, 1)))))


def _resize_section(draft: Draft, rng: random.Random) -> None:
    if draft.sections:
        at = rng.randrange(len(draft.sections))
        draft.sections[at] = (draft.sections[at] + b"\0")[: rng.choice((-2, None))]
        draft.lengths[at] = len(draft.sections[at])


def _move_boundary(draft: Draft, rng: random.Random) -> None:
    if len(draft.lengths) == 2 and draft.lengths[0] > 0:
        draft.lengths[0] -= 1
        draft.lengths[1] += 1


PERTURBATIONS: tuple[Callable[[Draft, random.Random], object], ...] = (
    lambda d, r: setattr(d, "dtype", r.choice((0, 1, 2, 3, 4, 5, 255))),
    lambda d, r: setattr(d, "version", r.choice((0, 1, 2, 3, 255))),
    lambda d, r: setattr(d, "flags", r.choice((0, 1, 2, 3, 4, 8, 0x80, 255, r.randrange(256)))),
    lambda d, r: setattr(d, "nonfinite", not d.nonfinite),
    lambda d, r: d.counts.update(dimensions=r.choice((0, 1, 32, 33, 255))),
    lambda d, r: d.counts.update(stages=r.choice((0, 2, 8, 9, 255))),
    lambda d, r: d.counts.update(sections=r.choice((0, 1, 3, 16, 17, 255))),
    lambda d, r: _other_word(d.shape, r),
    lambda d, r: d.shape.extend([r.choice(NOTABLE)] * r.choice((1, 2, 29))),
    lambda d, r: _other_word(d.lengths, r),
    _resize_section,
    _move_boundary,
    lambda d, r: d.stages.append((r.randrange(13), [])),
    lambda d, r: d.stages.__setitem__(0, (r.choice((*range(14), 65535)), d.stages[0][1])),
    *(_own_parameters,) * 6,
    _put_stage_before,
    lambda d, r: d.stages[0][1].extend(_parameter(r) for _ in range(r.choice((1, 1, 2, 33)))),
    lambda d, r: d.stages.__setitem__(0, (4, [(0, 1, bytes((r.choice((0, 1, 2, 255)),)))])),
    lambda d, r: d.sections.__setitem__(slice(None), [r.randbytes(len(s)) for s in d.sections]),
    lambda d, r: setattr(d, "tail", r.randbytes(r.choice((1, 4)))),
)  # fmt: skip


def drafts(rng: random.Random) -> Iterator[bytes]:
    """Plausible frames, most of them with one to three fields that are not."""
    while True:
        draft = plausible_draft(rng)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            rng.choice(PERTURBATIONS)(draft, rng)
        yield draft.encode()


FAMILIES = {"raw": raw_mutations, "drafts": drafts}


# ---- what must hold ----


def outcome(frame: bytes) -> str:
    """What became of a frame: accepted, or the error's text without its numbers."""
    try:
        y = fewbits.decompress(frame, max_elements=LIMIT, threads=1)
    except DecodeError as error:
        seen_by_a_check(error)
        return re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{8}\b|\d+|'\w+'", "_", str(error))
    assert y.size <= LIMIT
    info = fewbits.inspect(frame)
    assert (info.shape, info.elements, info.bytes) == (y.shape, y.size, len(frame))
    if "|" in info.operator or info.operator.partition(":")[0] not in CANONICAL:
        # Keys are drawn anew, scales and products are rounded, zeros may be kept: other frames
        # stand for the same vector, and none of them comes back.
        return "accepted"
    again = fewbits.compress(y, info.operator, seed=1, nonfinite="carry")
    if info.operator.startswith("spherical"):
        return "accepted"  # other directions are drawn for what was decoded
    if _is_cast(info):
        # Other payloads of NaN, and values beyond the dtype, decode to what the cast does write.
        assert _same_numbers(fewbits.decompress(again), y)
    elif again != frame:
        assert _same_codes(again, frame), "an accepted frame is not canonical"
    return "accepted"


def _same_codes(one: bytes, other: bytes) -> bool:
    """Whether frames of `natural:coder=rans` differ in the form of a block alone.

    A block may have other frequencies, be raw, or be of a kind that is no longer written.
    """
    first, second = (wire.parse(np.frombuffer(frame, np.uint8), LIMIT) for frame in (one, other))
    own, coded = second.header, wire.Parameter(1, wire.ParameterType.CHOICE, 1)
    alike = replace(first.header, lengths=own.lengths, version=own.version) == own
    if not alike or coded not in own.stages[0].parameters:
        return False
    read = [
        rans.decode(frame.sections[0].tobytes(), own.format.top_code + 1, own.elements, signed=True)
        for frame in (first, second)
    ]
    return all(np.array_equal(*plane) for plane in zip(*read, strict=True))


def _is_cast(info: FrameInfo) -> bool:
    return info.operator in ("float16", "bfloat16")


def _same_numbers(a: np.ndarray, b: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True)


def inspect_is_safe(frame: bytes) -> None:
    """`inspect` reads no section, so it may accept more than `decompress`, but raises no more."""
    try:
        assert str(fewbits.inspect(frame))
    except DecodeError as error:
        seen_by_a_check(error)


def run(family: str, seed: int, mutations: int) -> Counter[str]:
    """Outcomes of that many mutations; the frame goes with the error if one is wrong."""
    outcomes: Counter[str] = Counter()
    source = FAMILIES[family](random.Random(f"{family} {seed}"))
    for number, frame in zip(range(mutations), source, strict=False):
        try:
            outcomes[outcome(frame)] += 1
            inspect_is_safe(frame)
        except Exception as error:
            error.add_note(f"{family} seed {seed} mutation {number}: {frame.hex()}")
            raise
    return outcomes


def test_drafts_cover_every_operator_stage_dtype_and_extreme() -> None:
    rng, codes, dtypes, seen = random.Random("cover"), set(), set(), set()
    for _ in range(IN_GATE):
        draft = plausible_draft(rng)
        codes |= {code for code, _ in draft.stages}
        dtypes.add(draft.dtype)
        _own_parameters(draft, rng)
        own = [value for _, given in draft.stages for _, kind, value in given if kind == 3]
        seen |= {struct.unpack("<d", value) for value in own}
    assert codes == {cls.code for cls in CLASSES}
    assert dtypes == set(DTYPES)
    assert {(5e-324,), (1.7e308,)} <= seen
    assert any(value == 0 and math.copysign(1, value) < 0 for (value,) in seen)


@pytest.mark.parametrize("seed", range(2))
def test_raw_mutations_raise_only_decode_error(seed: int) -> None:
    outcomes = run("raw", seed, IN_GATE)
    assert outcomes["accepted"] < IN_GATE / 10
    assert len(outcomes) > 10


@pytest.mark.parametrize("seed", range(2))
def test_drafts_behind_a_right_checksum_raise_only_decode_error(seed: int) -> None:
    outcomes = run("drafts", seed, IN_GATE)
    assert IN_GATE / 10 < outcomes["accepted"] < IN_GATE * 9 / 10
    assert len(outcomes) > 25, "too few checks were reached"


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus_is_refused_in_the_same_words_by_every_table(path: Path) -> None:
    frame, words, before = path.read_bytes(), set(), _native.simd()
    for table in _native.SIMD:
        with contextlib.suppress(ValueError):  # not on this machine
            _native.use_simd(table)
        words.add(outcome(frame))
    _native.use_simd(before)
    assert len(words) == 1
    assert "accepted" not in words
    inspect_is_safe(frame)


def main() -> None:
    """Run both families with fresh seeds for as many mutations as asked, in steps with progress."""
    parser = argparse.ArgumentParser(description="mutated frames through decompress")
    parser.add_argument("--mutations", type=int, default=200_000, help="over both families")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    warnings.simplefilter("error")
    step, total, start = 5_000, Counter[str](), time.perf_counter()
    for number, first in enumerate(range(0, chosen.mutations, step)):
        family = tuple(FAMILIES)[number % 2]
        total += run(family, chosen.seed + number, min(step, chosen.mutations - first))
        done = first + step
        rate = done / (time.perf_counter() - start)
        sys.stdout.write(f"{done:,} of {chosen.mutations:,} mutations, {rate:,.0f}/s\n")
        sys.stdout.flush()
    for text, count in total.most_common():
        sys.stdout.write(f"{count:9,}  {text}\n")


if __name__ == "__main__":
    main()
