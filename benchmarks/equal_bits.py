"""Errors of unbiased operators at the bits that EDEN sends, measured on whole frames.

    python benchmarks/equal_bits.py [DIRECTORY OF RECORDED GRADIENTS]

writes `benchmarks/results/equal-bits.json`. Without recorded gradients (`record_gradients.py` makes
them) the vector is Gaussian alone. For each operator and each number of bits per coordinate the
smallest error is taken whose frame is not longer. EDEN's error is that of a Lloyd-Max quantiser
with its unbiased scale on a Gaussian, which rotation makes of every input; its side information is
not counted against it. The bias is what averaging the results of many seeds leaves of the error.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import fewbits

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "equal-bits.json"
BITS = (1, 2, 3, 4)
DIMENSION, SEED = 1 << 20, 7
HALVINGS = 16  # of the range of ln(nu)
SMALL, SEEDS = 1 << 16, 256  # for the bias
TEMPLATES = {
    "matched": "hadamard:signs=private|sparse-dithering:nu={nu:.6g},scale=matched",
    "subtractive": "sparse-dithering:nu={nu:.6g},rounding=subtractive",
    "stochastic": "sparse-dithering:nu={nu:.6g},rounding=stochastic",
}
Vector = npt.NDArray[np.float32]


def lloyd_max(bits: int) -> float:
    """The squared error of the best quantiser with 2^bits levels for a standard normal number."""
    count = 1 << bits
    levels = np.linspace(-2, 2, count)
    for _ in range(20_000):
        cuts = [-math.inf, *((levels[1:] + levels[:-1]) / 2).tolist(), math.inf]
        mass = np.diff([0.5 * (1 + math.erf(cut / math.sqrt(2))) for cut in cuts])
        density = [math.exp(-cut * cut / 2) / math.sqrt(2 * math.pi) for cut in cuts]
        levels = -np.diff(density) / mass
    return float(1 - mass @ levels**2)


def eden(bits: int) -> float:
    """EDEN's relative squared error: its scale makes the quantiser unbiased."""
    lost = lloyd_max(bits)
    return lost / (1 - lost)


def measured(x: Vector, spec: str, seed: int = SEED) -> tuple[float, float]:
    """Bits per coordinate and relative squared error."""
    frame = fewbits.compress(x, spec, seed=seed)
    difference = fewbits.decompress(frame).astype(np.float64) - x
    norm = float(np.sum(x.astype(np.float64) ** 2))
    return 8 * len(frame) / x.size, float(difference @ difference) / norm


def fitted(x: Vector, template: str, bits: float) -> dict[str, object]:
    """The finest step whose frame has no more bits."""
    low, high = math.log(1e-4), math.log(60.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if measured(x, template.format(nu=math.exp(middle)))[0] > bits:
            low = middle
        else:
            high = middle
    spec = template.format(nu=math.exp(high))
    sent, error = measured(x, spec)
    return {"spec": spec, "bits_per_coordinate": sent, "relative_squared_error": error}


def squared_bias(x: Vector, spec: str) -> float:
    """The relative squared bias, from half of the seeds times the other half."""
    sums = np.zeros((2, x.size))
    for seed in range(SEEDS):
        sums[seed % 2] += fewbits.decompress(fewbits.compress(x, spec, seed=seed))
    first, second = sums / (SEEDS // 2) - x
    return float(first @ second / np.sum(x.astype(np.float64) ** 2))


def compared(name: str, x: Vector) -> list[dict[str, object]]:
    """All operators at all numbers of bits."""
    rows: list[dict[str, object]] = []
    for bits in BITS:
        for operator, template in TEMPLATES.items():
            row = {"vector": name, "operator": operator, "bits": bits, **fitted(x, template, bits)}
            row["squared_bias"] = squared_bias(x[:SMALL], str(row["spec"]))
            rows.append(row)
            print(
                f"{name:<16}{bits} bits  {operator:<12}{row['relative_squared_error']:>9.4f}"
                f"  squared bias {row['squared_bias']:>9.1e}",
                flush=True,
            )
    return rows


def main(folder: str | None = None) -> None:
    """Measure, print and write."""
    vectors = {"gaussian": np.random.default_rng(SEED).standard_normal(DIMENSION, np.float32)}
    for path in sorted(Path(folder).glob("[rg]*-step*.npy")) if folder else ():
        vectors[path.stem] = np.load(path).ravel()
    errors = {str(bits): eden(bits) for bits in BITS}
    print("EDEN", {bits: round(error, 4) for bits, error in errors.items()})
    result = {
        "fewbits": fewbits.__version__,
        "numpy": np.__version__,
        "seeds_for_the_bias": SEEDS,
        "eden": errors,
        "rows": [row for name, x in vectors.items() for row in compared(name, x)],
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
