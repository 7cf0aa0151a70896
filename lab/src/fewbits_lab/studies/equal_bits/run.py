"""Errors of unbiased operators at the bits that EDEN sends, measured on whole frames.

    python -m fewbits_lab.studies.equal_bits.run [DIRECTORY OF RECORDED GRADIENTS]

writes `result.json`. Without recorded gradients (`record_gradients.py` makes
them) the vector is Gaussian alone. For each operator and each number of bits per coordinate the
smallest error is taken whose frame is not longer. EDEN's error is that of a Lloyd-Max quantiser
with its unbiased scale on a Gaussian, which rotation makes of every input; its side information is
not counted against it. The bias is what averaging the results of many seeds leaves of the error.
Subtractive dither is compared in `trellis_bits`.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import fewbits
from fewbits_lab import fitting, vectors
from fewbits_lab.baselines import eden
from fewbits_lab.fitting import Knob

_ROOT = Path(__file__).resolve().parents[4]
_RESULTS = Path(__file__).with_name("result.json")
BITS = (1, 2, 3, 4)
_DIMENSION, _SEED = 1 << 20, 7
_SMALL, _SEEDS = 1 << 16, 256  # for the bias
COARSE, FINE = 60.0, 1e-4
_KNOBS = {
    "matched": Knob(
        "hadamard:signs=private|sparse-dithering:nu={:.6g},scale=matched", COARSE, FINE
    ),
    "stochastic": Knob("sparse-dithering:nu={:.6g},rounding=stochastic", COARSE, FINE),
}
_Vector = npt.NDArray[np.float32]


def fitted(x: _Vector, knob: Knob, bits: float) -> dict[str, object]:
    """The finest step whose frame has no more bits."""
    size = fitting.frame_size(x, _SEED)
    spec = fitting.finest(size, knob, math.floor(bits * x.size / 8))
    assert spec is not None, f"{knob.template} has no frame of {bits} bits a value"
    sent, error = vectors.measure(spec, x, _SEED)
    return {"spec": spec, "bits_per_coordinate": sent, "relative_squared_error": error}


def squared_bias(x: _Vector, spec: str) -> float:
    """The relative squared bias, from half of the seeds times the other half."""
    sums = np.zeros((2, x.size))
    for seed in range(_SEEDS):
        sums[seed % 2] += fewbits.decompress(fewbits.compress(x, spec, seed=seed))
    first, second = sums / (_SEEDS // 2) - x
    return float(first @ second / np.sum(x.astype(np.float64) ** 2))


def compared(name: str, x: _Vector) -> list[dict[str, object]]:
    """All operators at all numbers of bits."""
    rows: list[dict[str, object]] = []
    for bits in BITS:
        for operator, knob in _KNOBS.items():
            row = {"vector": name, "operator": operator, "bits": bits, **fitted(x, knob, bits)}
            row["squared_bias"] = squared_bias(x[:_SMALL], str(row["spec"]))
            rows.append(row)
            print(
                f"{name:<16}{bits} bits  {operator:<12}{row['relative_squared_error']:>9.4f}"
                f"  squared bias {row['squared_bias']:>9.1e}",
                flush=True,
            )
    return rows


def main(folder: str | None = None) -> None:
    """Measure, print and write."""
    vectors = {"gaussian": np.random.default_rng(_SEED).standard_normal(_DIMENSION, np.float32)}
    for path in sorted(Path(folder).glob("[rg]*-step*.npy")) if folder else ():
        vectors[path.stem] = np.load(path).ravel()
    errors = {str(bits): eden.formula(bits) for bits in BITS}
    print("EDEN", {bits: round(error, 4) for bits, error in errors.items()})
    result = {
        "fewbits": fewbits.__version__,
        "numpy": np.__version__,
        "seeds_for_the_bias": _SEEDS,
        "eden": errors,
        "rows": [row for name, x in vectors.items() for row in compared(name, x)],
    }
    _RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
