"""Selecting the largest magnitudes: `top-k` against `torch.topk`, one thread, interleaved.

    python -m fewbits_lab.studies.top_k.run

writes `result.json`. The vector is Gaussian with 25 million `float32` values, k
is 1 % of them. `select` is the native selection, with places in ascending order; `compress` is the
whole frame of `top-k:fraction=0.01|natural` with its places coded. torch gets the magnitudes ready
made and need not sort what it finds. CPU seconds, the best of several rounds.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import fewbits
from fewbits.backend import library
from fewbits.reference.formats import FLOAT32

_RESULTS = Path(__file__).with_name("result.json")
_DIMENSION, FRACTION, _ROUNDS = 25_000_000, 0.01, 7


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Measure, print and write."""
    torch.set_num_threads(1)
    x = np.random.default_rng(7).standard_normal(_DIMENSION, dtype=np.float32)
    magnitudes, k = torch.from_numpy(np.abs(x)), int(FRACTION * _DIMENSION)
    spec = f"top-k:fraction={FRACTION}|natural"
    room = np.empty(fewbits.largest_frame(x, spec), np.uint8)
    copy = np.empty_like(x)
    works: dict[str, Callable[[], object]] = {
        "memcpy": lambda: np.copyto(copy, x),
        "torch.topk": lambda: torch.topk(magnitudes, k, sorted=False),
        "select": lambda: library.select(x.view(np.uint32), FLOAT32.code, k),
        "compress": lambda: fewbits.compress(x, spec, seed=7, out=room),
    }
    best = dict.fromkeys(works, float("inf"))
    for _ in range(_ROUNDS):
        for name, work in works.items():
            best[name] = min(best[name], seconds(work))
    for name, own in best.items():
        print(f"{name:<12}{1e3 * own:>9.1f} ms{best['torch.topk'] / own:>8.1f} x torch.topk")
    result = {"elements": _DIMENSION, "k": k, "torch": torch.__version__, "cpu_seconds": best}
    _RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
