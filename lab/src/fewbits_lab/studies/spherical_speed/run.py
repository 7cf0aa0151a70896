"""Spherical compression against its lower bound, and its native search against NumPy.

    python -m fewbits_lab.studies.spherical_speed.run [--blocks 10240] [--repeat 5]

writes `result.json`. Bits are those of the index as it is written, radii not
counted; `excess` is what they exceed -log2 P by, which is at most 1.57 in theory. Errors are those
of decoded blocks. Times are CPU times of one thread, the least of several: of the whole `compress`,
and of the same with the reference search in NumPy. The third column of times is NumPy at its best:
the search alone, its inner products by BLAS in float32, which gives no promise about the last bits.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

import fewbits
from fewbits import Rng
from fewbits.backend.kinds import spherical as native_spherical
from fewbits.bench.machine import this_machine
from fewbits.families import caps
from fewbits.operators.spherical import LARGEST_PARAMETER, Spherical
from fewbits.reference import directions as kernel
from fewbits.reference.formats import FLOAT32, Bits
from fewbits.reference.spherical import Sphere, SphericalCodes, runs, searched, together

_RESULTS = Path(__file__).with_name("result.json")
# The pairs that the paper's notes have measured.
ROWS = (
    *((0.5, 8), (0.5, 16), (0.5, 24), (0.25, 8), (0.25, 10)),
    *((0.2, 8), (0.1, 6), (0.8, 24), (0.9, 32)),
)


def seconds(work: Callable[[], object], repeat: int) -> float:
    """The least CPU time of several runs."""
    best = math.inf
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def by_blas(own: Spherical, x: np.ndarray, stream: Rng, tile: int = 2048) -> None:
    """The search as one would write it in NumPy for speed."""
    values = x.reshape(-1, own.block)
    values = values / np.linalg.norm(values, axis=1, keepdims=True)
    need, left = np.float32(math.sqrt(1 - own.alpha)), np.arange(len(values))
    for first in range(0, own._limit(x.size), tile):
        if not left.size:
            break
        places = np.arange(first, first + tile)
        vectors = kernel.drawn(stream, np.zeros_like(places), places, own.block)
        units = vectors.astype(np.float32)
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        inside = (values[left] @ units.T >= need).any(axis=1)
        left = left[~inside]


def plainly_searched(values: Bits, how: Sphere, rng: Rng, stream: Rng) -> None:
    """The search as the specification has it."""
    for run in runs(how, values.size):
        searched(values, FLOAT32, how, run, rng, stream)


def natively_searched(values: Bits, how: Sphere, rng: Rng, stream: Rng) -> SphericalCodes:
    """The same in native code, all parts joined."""
    return together(
        [
            SphericalCodes(
                codes.radii.astype(np.int64),
                codes.indices[codes.indices >= 0].astype(np.int64),
                codes.escapes.astype(np.int32),
                met[1],
            )
            for codes, met in native_spherical.searched(values, FLOAT32, how, rng, stream)
        ]
    )


def measured(alpha: float, block: int, blocks: int, repeat: int) -> dict[str, float]:
    """One row of the table."""
    own = Spherical(alpha, block)
    x = np.random.default_rng(block).standard_normal(blocks * block, dtype=np.float32)
    rng = Rng.from_seed(1).fork(0)
    stream, numbers, values = rng.fork("sphere"), own.sphere(x.size, FLOAT32), x.view(np.uint32)
    chance = caps.probability(alpha, block)
    parameter = caps.rice_parameter(chance, LARGEST_PARAMETER) or 0
    sent = natively_searched(values, numbers, rng, stream)
    bits = float((parameter + 1 + (sent.indices >> parameter)).mean())
    frame = fewbits.compress(x, own, seed=1)
    before = x.astype(np.float64).reshape(-1, block)
    after = fewbits.decompress(frame).astype(np.float64).reshape(-1, block)
    errors = ((after - before) ** 2).sum(axis=1) / (before**2).sum(axis=1)
    encode = seconds(lambda: fewbits.compress(x, own, seed=1, threads=1), repeat)
    native = seconds(lambda: natively_searched(values, numbers, rng, stream), repeat)
    numpy = seconds(lambda: plainly_searched(values, numbers, rng, stream), 1)
    return {
        "alpha": alpha,
        "block": block,
        "blocks": blocks,
        "lower_bound_bits": -math.log2(chance),
        "index_bits": bits,
        "excess": bits + math.log2(chance),
        "escaped_blocks": int(np.count_nonzero(sent.escapes.reshape(-1, block).any(axis=1))),
        "frame_bits_per_value": 8 * len(frame) / x.size,
        "largest_error": float(errors.max()),
        "mean_error": float(errors.mean()),
        "blocks_per_second": blocks / encode,
        "decoded_blocks_per_second": blocks
        / seconds(lambda: fewbits.decompress(frame, threads=1), repeat),
        "faster_than_numpy": (encode - native + numpy) / encode,
        "faster_than_blas": seconds(lambda: by_blas(own, x, stream), 1) / native,
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=10_240)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    kernel.normal_table()
    print("alpha block  -log2 P  index  excess  error max/mean  blocks/s  x NumPy  x BLAS")
    rows = []
    for alpha, block in ROWS:
        row = measured(alpha, block, chosen.blocks, chosen.repeat)
        rows.append(row)
        print(
            f"{alpha:5} {block:5} {row['lower_bound_bits']:8.3f} {row['index_bits']:6.3f}"
            f" {row['excess']:7.3f}  {row['largest_error']:.4f} {row['mean_error']:.4f}"
            f" {row['blocks_per_second']:9.0f} {row['faster_than_numpy']:8.1f}"
            f" {row['faster_than_blas']:7.1f}",
            flush=True,
        )
    result = {"machine": asdict(this_machine()), "vector": "standard normal, float32", "rows": rows}
    _RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
