"""R18: the pooled bias of every unbiased operator over very many draws."""

import json
import math
import sys

import numpy as np

import fewbits
from mutants import ROOT
from soaking.fuzzing import together
from soaking.programs import last_line, run
from soaking.stage import CODEC, CORE, Stage, StageError, Work

# One of each family that states omega, and what its docstring allows as a relative bias.
UNBIASED = {
    "natural": 0.0,
    "rand-k:fraction=0.5|natural": 0.0,
    "hadamard|natural": 1e-6,  # rotations are rounded to float32
    "natural-dithering": 0.0,
    "standard-dithering": 0.0,
    "sparse-dithering:rounding=stochastic": 0.0,
    "sparse-dithering:rounding=subtractive": 1e-6,
    "spherical:scale=unbiased": 1e-4,
}
SIZE = 1 << 16
SCORE = 6.11  # two-sided, 1e-9
EACH = 2 * 10**9
LEAST = 100  # vectors, before a score means anything


def vector() -> np.ndarray:
    return np.random.default_rng(7).standard_normal(SIZE).astype(np.float32)


def directions(x: np.ndarray) -> np.ndarray:
    """Signs and the vector itself: the bias is looked for along both, relative to x."""
    signs = np.sign(x) / np.abs(x).sum()
    return np.stack([signs, x / (x @ x)]).astype(np.float32)


def sums(spec: str, vectors: int, seed: int) -> list[list[float]]:
    """Number, sum and sum of squares of the error along each direction, over so many draws."""
    x, operator = vector(), fewbits.operator(spec)
    along, y = directions(x), np.empty_like(x)
    buffer = bytearray(fewbits.largest_frame(x, operator))
    found = np.empty((vectors, 2))
    for number in range(vectors):
        frame = fewbits.compress(x, operator, seed=seed + number, out=buffer, threads=1)
        fewbits.decompress(frame, out=y, threads=1)
        np.subtract(y, x, out=y)
        found[number] = along @ y
    return [[vectors, float(own.sum()), float((own**2).sum())] for own in found.T]


def scores(totals: list[list[float]], allowed: float = 0.0) -> list[float]:
    """Standard scores of the mean error, beyond what is allowed."""
    found = []
    for number, total, squares in totals:
        mean = total / number
        error = math.sqrt(max(squares / number - mean**2, 1e-300) / number)
        found.append(math.copysign(max(0.0, abs(mean) - allowed), mean) / error)
    return found


def biases(work: Work) -> None:
    pooled = work.figures.setdefault("sums", {})
    check_planted()
    share = max(LEAST, -(-work.size // (len(UNBIASED) * SIZE)))  # vectors of each
    first = work.start // (len(UNBIASED) * SIZE) + 1

    def part(spec: str, number: int) -> None:
        if work.seconds_left == 0:
            return
        words = (sys.executable, "-m", "soaking.draws", spec, str(share // 4 + 1))
        seed = str((first * 4 + number) << 32)
        name = spec.split(":")[0].replace("|", "-")
        text = run(f"draws-{name}-{number}", *words, seed, cwd=ROOT / "tests")
        own = pooled.setdefault(spec, [[0, 0.0, 0.0], [0, 0.0, 0.0]])
        for total, more in zip(own, json.loads(last_line(text)), strict=True):
            total[:] = [a + b for a, b in zip(total, more, strict=True)]
        work.add((share // 4 + 1) * SIZE, summary(pooled))

    # The slowest first, or one of two processors would wait for it at the end.
    together(part, [(spec, number) for spec in reversed(UNBIASED) for number in range(4)])
    for spec, totals in pooled.items():
        if max(map(abs, scores(totals, UNBIASED[spec]))) > SCORE:
            raise StageError(f"{spec} is biased: scores {scores(totals)}")


def summary(pooled: dict[str, list[list[float]]]) -> str:
    worst = {s: max(map(abs, scores(t, UNBIASED[s]))) for s, t in pooled.items()}
    name = max(worst, key=lambda spec: worst[spec])
    fewest = min(total[0][0] for total in pooled.values()) * SIZE
    return (
        f"largest score {worst[name]:.2f} (`{name}`), bound {SCORE}; of each operator at least "
        f"{fewest:,.0f} draws"
    )


def coarse(vectors: int) -> list[list[float]]:
    """The same of rounding to powers of two with eight random bits and no half of a step added."""
    x, source = vector(), np.random.default_rng(1)
    along, size = directions(x), np.abs(x)
    low = np.ldexp(np.float32(0.5), np.frexp(size)[1])
    up = np.floor(256 * (size / low - 1)).astype(np.int32)
    found = np.empty((vectors, 2))
    for number in range(vectors):
        drawn = source.integers(0, 256, SIZE, dtype=np.int32)
        y = np.copysign(low * np.where(drawn < up, 2, 1), x)
        found[number] = along @ (y - x)
    return [[vectors, float(own.sum()), float((own**2).sum())] for own in found.T]


def check_planted() -> None:
    """A stage that does not see a bias of 2^-9 of a step cannot fail."""
    if max(map(abs, scores(coarse(LEAST)))) <= SCORE:
        raise StageError("the bias of rounding with eight bits was not seen")


def main() -> None:
    spec, vectors, seed = sys.argv[1:]
    sys.stdout.write(json.dumps(sums(spec, int(vectors), int(seed))) + "\n")


STAGES = (
    Stage("draws", "R18", "pooled bias of every unbiased operator, along two directions", "draws",
          EACH * len(UNBIASED), (*CORE, *CODEC), biases, least=LEAST * SIZE * len(UNBIASED)),
)  # fmt: skip

if __name__ == "__main__":
    main()
