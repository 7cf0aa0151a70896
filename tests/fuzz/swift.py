"""As many mutated frames through `decompress` as a second has room for; `make soak` runs it.

    python tests/fuzz/swift.py --executions 1000000 [--seed 1] [--seconds 60]

`test_fuzz.py` makes frames and drafts one by one, with everything that can be wrong about their
structure. Here each of them is a base of many variants, whose bytes are changed in whole arrays.
Nine in ten get a right checksum again: a CRC is linear, so a change of a byte is a change of the
checksum that a table has. Every frame lies in memory of its own size, so that a sanitized core sees
a read beyond it. What is accepted must hold no more than was allowed; one in many goes through all
checks of `test_fuzz.py`.
"""

import argparse
import random
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import fewbits
from fewbits import DecodeError
from fuzz import test_fuzz

CRC = 4
VARIANTS = {True: 128, False: 24}  # of a base that is accepted, and of one that is not
HEADER = 40  # bytes, about
IN_HEADER = 0.2  # of the changes: nearly all of them are refused before a section is read
WHOLE = 64  # one frame in so many is judged by `test_fuzz.py`
SOME = np.array([1, 2, 4, 8, 16, 32, 64, 128, 255, 3, 129, 127], np.uint8)  # exclusive or with it


def crc_changes(size: int) -> np.ndarray:
    """Row k: for each change of a byte, the change of a CRC-32C with k bytes behind that byte."""
    single = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        single = (single >> 1) ^ np.where(single & 1, np.uint32(0x82F63B78), np.uint32(0))
    rows = np.empty((size, 256), np.uint32)
    rows[0] = single
    for k in range(1, size):
        rows[k] = (rows[k - 1] >> np.uint32(8)) ^ single[rows[k - 1] & 0xFF]
    return rows


CHANGES = crc_changes(4096)


def variants(base: bytes, number: int, source: np.random.Generator) -> list[np.ndarray]:
    """So many changes of a few bytes each; nine in ten have a right checksum."""
    size = len(base) - CRC
    frames = np.tile(np.frombuffer(base, np.uint8), (number, 1))
    rows = np.arange(number)
    change = np.zeros(number, np.uint32)
    edits = source.choice(4, number, p=(0.5, 0.3, 0.1, 0.1)) + 1
    for turn in range(4):
        inside = source.random(number) < IN_HEADER
        low = np.where(inside, 5, min(HEADER, size - 1))
        high = np.where(inside, min(HEADER, size), size)
        at = low + (source.random(number) * np.maximum(high - low, 1)).astype(np.int64)
        at = np.minimum(at, size - 1)
        other = np.where(
            source.random(number) < 0.5, source.choice(SOME, number),
            source.integers(1, 256, number, dtype=np.uint8),
        )  # fmt: skip
        other = np.where(turn < edits, other, 0).astype(np.uint8)
        frames[rows, at] ^= other
        change ^= CHANGES[size - 1 - at, other]
    change[source.random(number) < 0.1] ^= np.uint32(source.integers(1, 2**32))
    frames[:, size:] ^= change.astype("<u4").view(np.uint8).reshape(-1, CRC)
    return [frame.copy() for frame in frames]


def bases(seed: int) -> Iterator[bytes]:
    """Frames with a right checksum, from each family in turn."""
    sources = [
        make(random.Random(f"{family} {seed}")) for family, make in test_fuzz.FAMILIES.items()
    ]
    for number in count():
        frame = next(sources[number % len(sources)])
        if 10 < len(frame) - CRC <= len(CHANGES):
            yield test_fuzz.sealed(frame[:-CRC])


def judge(frames: list[np.ndarray]) -> int:
    """How many are accepted; anything but `DecodeError` comes out."""
    accepted, limit, decompress = 0, test_fuzz.LIMIT, fewbits.decompress
    for frame in frames:
        try:
            y = decompress(frame, max_elements=limit, threads=1)
        except DecodeError:
            continue
        accepted += 1
        if y.size > limit:
            raise AssertionError(f"{y.size} values where {limit} are allowed")
    return accepted


def run(executions: int, seed: int, seconds: float) -> tuple[int, int]:
    """How many were run and how many of them accepted; the bases' seed goes with an error."""
    source = np.random.default_rng(seed)
    done = accepted = 0
    start = told = time.perf_counter()
    for number, base in enumerate(bases(seed)):
        now = time.perf_counter()
        if done >= executions or now - start > seconds:
            break
        try:
            frames = variants(base, VARIANTS[judge([np.frombuffer(base, np.uint8)]) == 1], source)
            accepted += judge(frames)
            for frame in frames[::WHOLE]:
                test_fuzz.outcome(frame.tobytes())
                test_fuzz.inspect_is_safe(frame.tobytes())
        except Exception as error:
            error.add_note(f"seed {seed} base {number}: {base.hex()}")
            raise
        done += len(frames)
        if now - told > 10:
            told = now
            say(done, accepted, now - start)
    say(done, accepted, time.perf_counter() - start)
    return done, accepted


def say(done: int, accepted: int, seconds: float) -> None:
    sys.stdout.write(f"executions={done} accepted={accepted} rate={done / seconds:.0f}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description="mutated frames through decompress, quickly")
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    chosen = parser.parse_args()
    warnings.simplefilter("error")
    done, accepted = run(chosen.executions, chosen.seed, chosen.seconds)
    # A loop that reaches no decoder, or in which nothing is refused, proves nothing.
    if done >= 10_000 and not 0.01 < accepted / done < 0.9:
        sys.exit(f"{accepted} of {done} were accepted: the mutations are not what they should be")


if __name__ == "__main__":
    main()
