"""Errors at equal measured bits: the trellis, the scalar quantiser, EDEN and fp8.

    python -m fewbits_lab.studies.trellis_bits.run [DIRECTORY OF RECORDED GRADIENTS]

adds rows to `result.json`; what is there already is not measured again. Without recorded gradients
(`python -m fewbits_lab.recordings` makes them) the vector is Gaussian alone. For each operator and
each number of bits the finest step is taken whose frame is not longer. A vector is one frame;
where its levels would have more than 16 bits, frames of 65,536 values, as in training, are tried
too, and what has less error counts. EDEN and fp8 are measured on whole messages. Between whole
numbers of bits EDEN's error is the formula's for values of which some take the lower and some the
higher number; without a bit a value is left out.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fewbits
from fewbits.errors import SpecError
from fewbits_lab import baselines, runs, vectors
from fewbits_lab.baselines import Eden, Fp8
from fewbits_lab.baselines.lloyd_max import quantiser
from fewbits_lab.record import Item
from fewbits_lab.vectors import VectorMeasure, VectorValues

_RESULTS = Path(__file__).with_name("result.json")
EQUAL_RATES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
SCALAR, TRELLIS, NEAREST_TRELLIS = "scalar", "trellis", "trellis, nearest"
EDEN, FP8 = "EDEN", "fp8"
FORMS = {
    SCALAR: "sparse-dithering:nu={:.6g},rounding=subtractive",
    TRELLIS: "trellis:nu={:.6g},rounding=subtractive",
    NEAREST_TRELLIS: "trellis:nu={:.6g},scale=least-squares",
}
STATES = (4, 8, 16)  # on the Gaussian vector, also below one bit
STATE_RATES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
STATE_FORMS = {
    f"{states} states": f"trellis:nu={{:.6g}},scale=least-squares,states={states}"
    for states in STATES
}
FORMS |= STATE_FORMS
_DIMENSION, _SEED = 1_000_000, 7
_PIECE = 65_536
_FULL, _AIM = 0.997, 0.9988  # of the budget: full enough, and aimed at
_NEARLY = 0.99  # of the budget: less says that levels of 16 bits were not enough
_TRIES = 12
_COARSE, _AT_TWO_BITS = 60.0, 0.32  # values of `nu`
_COARSEST = {NEAREST_TRELLIS: 0.999}


def measure(x: VectorValues, operator: str, bits: float) -> Item | None:
    """One row; None if the operator has no frame near so many bits."""
    if operator == EDEN:
        if not bits.is_integer():
            return _row(VectorMeasure(bits, eden_formula(bits)), spec="formula")
        return _row(baselines.measure(Eden(int(bits)), x, _SEED), spec=Eden(int(bits)).name)
    if operator == FP8:
        return _row(baselines.measure(Fp8(), x, _SEED), spec=Fp8().name)
    budget = math.floor(bits * x.size / 8)
    found: list[Item] = []
    for piece in (x.size, _PIECE):
        parts = np.split(x, range(piece, x.size, piece))
        best = finest(frames_size(parts), operator, budget, bits, guessed(x, operator, bits))
        if best is not None:
            spec = FORMS[operator].format(best[0])
            row = _row(measured(parts, spec, x), spec=spec, frames=len(parts))
            found.append(row)
            if best[1] > _NEARLY:
                break
    return min(found, key=lambda row: float(row["relative_squared_error"]), default=None)


def _row(found: VectorMeasure, **others: object) -> Item:
    return {**others, "bits_per_value": found.bits, "relative_squared_error": found.error}


def eden_formula(bits: float) -> float:
    """EDEN's error on any vector, with a scale that is common to values of both sizes."""
    low = math.floor(bits)
    lost = [1.0 if own == 0 else quantiser(own).error for own in (low, low + 1)]
    mixed = lost[0] + (bits - low) * (lost[1] - lost[0])
    return mixed / (1 - mixed)


def frames_size(parts: list[VectorValues]) -> Callable[[str], int | None]:
    """Bytes of all frames by spec; None where the spec is not for vectors as long as these."""

    def size(spec: str) -> int | None:
        try:
            return sum(
                len(fewbits.compress(part, spec, seed=_SEED + number))
                for number, part in enumerate(parts)
            )
        except SpecError:
            return None

    return size


def finest(
    size: Callable[[str], int | None], operator: str, budget: int, bits: float, guess: float
) -> tuple[float, float] | None:
    """The least `nu` found whose frames fit, and the share that they fill; None if none fits.

    Its logarithm is found between the finest that fits and the coarsest that does not: on the line
    through both, and every third time half-way.
    """
    coarse = math.log(_COARSEST.get(operator, _COARSE))
    at = min(math.log(guess), coarse)
    fits: tuple[float, float] | None = None  # a place, and the share of the budget
    beyond: tuple[float, float] | None = None
    for turn in range(_TRIES):
        found = size(FORMS[operator].format(math.exp(at)))
        share = math.inf if found is None else found / budget
        if share <= 1:
            fits = at, share
            if share >= _FULL:
                break
        elif at >= coarse:
            return None
        else:
            beyond = at, share
        at = min(_between(fits, beyond, bits, halve=turn % 3 == 2), coarse)
    return None if fits is None else (math.exp(fits[0]), fits[1])


def _between(
    fits: tuple[float, float] | None,
    beyond: tuple[float, float] | None,
    bits: float,
    *,
    halve: bool,
) -> float:
    """The next place to try; a bit more quarters `nu`, as long as only one side is known."""
    if fits is None or beyond is None:
        at, share = fits or beyond or (0.0, 1.0)
        if share == math.inf:
            return at + math.log(4)
        return at + math.log(4) * (1.2 * bits * (share - _AIM) + math.copysign(0.004, share - 1))
    if halve or beyond[1] == math.inf:
        return (fits[0] + beyond[0]) / 2
    return fits[0] + (beyond[0] - fits[0]) * (_AIM - fits[1]) / (beyond[1] - fits[1])


def guessed(x: VectorValues, operator: str, bits: float) -> float:
    """A `nu` to begin with: that of every sixteenth value, for the same step."""
    first = float(_AT_TWO_BITS * 4.0 ** (2 - bits))
    some = np.ascontiguousarray(x[::16])
    budget = math.floor(bits * some.size / 8)
    found = finest(frames_size([some]), operator, budget, bits, first)
    if found is None:
        return first
    squares = [float(np.mean(own.astype(np.float64) ** 2)) for own in (some, x)]
    return found[0] * squares[0] / squares[1]


def measured(parts: list[VectorValues], spec: str, x: VectorValues) -> VectorMeasure:
    """Bits of all frames, and the error of what they decode to."""
    frames = [
        fewbits.compress(part, spec, seed=_SEED + number) for number, part in enumerate(parts)
    ]
    decoded = np.concatenate([fewbits.decompress(frame) for frame in frames])
    bits = 8 * sum(map(len, frames)) / x.size
    return VectorMeasure(bits, vectors.relative_error(x, decoded))


def main(folder: str | None = None) -> None:
    """Measure what is not in the results yet, vector by vector."""
    recorded = sorted(Path(folder).glob("[arg]*-step*.npy"), key=_size) if folder else []
    sources: list[str | Path] = ["gaussian", *recorded]
    known = {(row["vector"], row["operator"], row["bits"]) for row in runs.read(_RESULTS)}
    head = {"fewbits": fewbits.__version__, "numpy": np.__version__}
    for operators in ((EDEN, FP8, SCALAR, TRELLIS), (NEAREST_TRELLIS,), tuple(STATE_FORMS)):
        for source in sources[:1] if operators == tuple(STATE_FORMS) else sources:
            x, title = vector(source), Path(source).stem
            for operator in operators:
                for bits in rates(operator):
                    if (title, operator, bits) in known:
                        continue
                    found = measure(x, operator, bits)
                    if found is not None:
                        row = {"vector": title, "operator": operator, "bits": bits, **found}
                        runs.add(_RESULTS, row, head, ("vector", "operator", "bits"))
                        print(json.dumps(row), flush=True)


def rates(operator: str) -> tuple[float, ...]:
    """The numbers of bits that an operator is measured at."""
    if operator == FP8:
        return (8.0,)
    return STATE_RATES if operator in STATE_FORMS else EQUAL_RATES


def vector(source: str | Path) -> VectorValues:
    """The Gaussian vector, or a recorded one."""
    if isinstance(source, Path):
        found: VectorValues = np.load(source).ravel()
        return found
    return np.random.default_rng(_SEED).standard_normal(_DIMENSION, np.float32)


def _size(path: Path) -> tuple[int, str]:
    return path.stat().st_size, path.name


if __name__ == "__main__":
    main(*sys.argv[1:2])
