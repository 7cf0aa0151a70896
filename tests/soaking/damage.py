"""R3: damaged frames. All of a few kinds of damage to golden frames, and random damage to them."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

import fewbits
from mutants import ROOT
from soaking.fuzzing import together
from soaking.programs import driver, numbers, run
from soaking.stage import CODEC, CORE, Stage, StageError, Work

GOOD = ROOT / "tests" / "golden" / "good"
RANDOM = 10**7
BATCH = 500_000


def frames() -> list[Path]:
    found = sorted(path for path in GOOD.rglob("*.bin") if path.stat().st_size <= 4096)
    if min(Counter(path.parent.name for path in found).values()) < 3:
        raise StageError("an operator has fewer than three golden frames")
    return found


def damaged(work: Work) -> None:
    """The native reader meets everything; then `decompress` meets what is exhaustive."""
    program, good = driver("damage"), frames()
    work.ready()
    while not work.over:
        share = min(work.left, BATCH)
        if share == 0:
            break
        text = run("damage", program, str(share), str(work.start), *good)
        told = numbers(text)
        work.figures["exhaustive"] = int(told["exhaustive"])
        kinds = f"and all {int(told['exhaustive']):,} prefixes, flips, losses, doublings and tails"
        work.add(share, f"{kinds} of {len(good)} frames")


def damaged_python(work: Work) -> None:
    """The same through `decompress`, frame by frame; goes on where the last run has ended."""
    good = frames()

    def part(number: int, *paths: Path) -> None:
        words = (sys.executable, "-m", "soaking.damage", *paths)
        tried = int(numbers(run(f"damage-python-{number}", *words, cwd=ROOT / "tests"))["tried"])
        work.figures["tried"] = work.figures.get("tried", 0) + tried

    while not work.over:
        number = work.start % len(good)
        share = good[number : number + min(8, work.left)]
        together(part, [(n, *share[n::2]) for n in range(2)])
        work.add(len(share), f"{work.figures['tried']:,} damaged frames, 0 accepted")


def tries(good: bytes) -> int:
    """Every prefix, flip, loss, doubling and tail of a frame, as `damage.cpp` makes them."""
    ends = (b"\0", b"\xff", good[-1:])
    frame, tried = np.frombuffer(good, np.uint8).copy(), 0
    refuse(good, wanted=False)
    for at in range(8 * frame.size):
        frame[at // 8] ^= 1 << at % 8
        refuse(frame)
        frame[at // 8] ^= 1 << at % 8
        tried += 1
    for at in range(len(good)):
        for other in (good[:at], good[:at] + good[at + 1 :], good[: at + 1] + good[at:]):
            refuse(other)
            tried += 1
    for end in ends:
        for more in range(1, 17):
            refuse(good + more * end)
            tried += 1
    return tried


def refuse(frame: bytes | np.ndarray, wanted: bool = True) -> None:
    try:
        fewbits.decompress(frame, threads=1)
    except fewbits.DecodeError:
        if not wanted:
            raise
    else:
        if wanted:
            raise AssertionError(f"accepted: {bytes(frame).hex()}")


def main() -> None:
    total = sum(tries(Path(name).read_bytes()) for name in sys.argv[1:])
    sys.stdout.write(f"tried={total}\n")


STAGES = (
    Stage("damage", "R3", "two flipped bits and bursts of up to 32, through parser and checksum",
          "damaged frames", RANDOM, CORE, damaged, least=10_000),
    Stage("damage-python", "R3", "every prefix, flip, loss, doubling and tail of golden frames "
          "through `decompress`", "golden frames", len(list(GOOD.rglob("*.bin"))),
          (*CORE, *CODEC), damaged_python, least=8),
)  # fmt: skip

if __name__ == "__main__":
    main()
