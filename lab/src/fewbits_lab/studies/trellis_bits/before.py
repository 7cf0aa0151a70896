"""Errors of subtractive dither at equal bits if every block of its codes had one table.

    python -m fewbits_lab.studies.trellis_bits.before DIRECTORY OF RECORDED GRADIENTS

adds rows to `result-before.json`; what is there already is not measured again. Codes are those of
`sparse-dithering:rounding=subtractive`, written as wire version 2 has them: with a table a block
that does not know the dither. Budgets are filled to two parts in ten thousand.
"""

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import fewbits
from fewbits.backend import coders
from fewbits.errors import SpecError
from fewbits.wire import frame as wire
from fewbits.wire.sections import Coded
from fewbits_lab import runs
from fewbits_lab.studies.trellis_bits import run
from fewbits_lab.vectors import VectorValues

_RESULTS = Path(__file__).with_name("result-before.json")
_RATES = (1.0, 2.0, 3.0, 4.0)
_MODELS = ("gpt", "resnet")
_STEPS = (2, 10, 40)
_SEED = 7
_FULL, _TRIES = 0.9998, 20


def one_table_size(x: VectorValues, spec: str) -> float:
    """Bytes of the frame, with its codes written anew; infinite where the step is too fine."""
    try:
        frame = np.frombuffer(fewbits.compress(x, spec, seed=_SEED), np.uint8)
    except SpecError:
        return math.inf
    parsed = wire.read(frame, x.size)
    _, codes, key = parsed.sections
    layout = fewbits.operator(spec).layout(x.size, parsed.header.format)[1]
    assert isinstance(layout, Coded)
    found, signs = coders.dithered_decode(codes, layout.bound, x.size, key.tobytes())
    return frame.size - codes.size + len(coders.coded_encode(found, layout.bound, signs))


def finest(size: Callable[[str], float], bits: float, count: int) -> str:
    """The finest spec found whose frame has no more bits."""
    budget, form = math.floor(bits * count / 8), run.FORMS[run.SCALAR]
    low, high = math.log(1e-5), math.log(60.0)  # of nu: too fine, coarse enough
    for _ in range(_TRIES):
        middle = (low + high) / 2
        share = size(form.format(math.exp(middle))) / budget
        low, high = (low, middle) if share <= 1 else (middle, high)
        if _FULL <= share <= 1:
            break
    return form.format(math.exp(high))


def main(folder: str) -> None:
    """Measure what is not in the results yet."""
    names = [f"{model}-step{step:04}" for model in _MODELS for step in _STEPS]
    head = {"fewbits": fewbits.__version__, "numpy": np.__version__}
    sources: list[str | Path] = ["gaussian", *(Path(folder) / f"{name}.npy" for name in names)]
    for source in sources:
        x, title = run.vector(source), Path(source).stem
        for bits in _RATES:
            if any((row["vector"], row["bits"]) == (title, bits) for row in runs.read(_RESULTS)):
                continue
            size = partial(one_table_size, x)
            spec = finest(size, bits, x.size)
            error = run.measured([x], spec, x).error
            row = {"vector": title, "bits": bits, "spec": spec,
                   "bits_per_value": 8 * size(spec) / x.size,
                   "relative_squared_error": error}  # fmt: skip
            runs.add(_RESULTS, row, head, ("vector", "bits"))


if __name__ == "__main__":
    main(sys.argv[1])
