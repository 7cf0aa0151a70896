"""How bytes travel best between ranks on gloo: point to point or all-to-all, whole or in pieces.

    python -m fewbits_lab.studies.transport.run

Every rank sends five million bytes, an equal part to each of the others, and receives as many, on
links between network namespaces (root, Linux). Ways take turns; medians and their ratio to the
first one go to `result.json`.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from fewbits_lab.links import tools
from fewbits_lab.links.network import Network
from fewbits_lab.links.program import join, launched, leave, tell
from fewbits_lab.links.setting import ShapedLink

_RESULTS = Path(__file__).with_name("result.json")
_RANKS, _RATES = (2, 4), (1e8, 1e9, None)
BYTES, _PIECE, _ROUNDS = 5_000_000, 1_000_000, 9


def main() -> None:
    """Measure every link."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(options.rank)
    tools.check_ready()
    rows = []
    for rate, ranks in product(_RATES, _RANKS):
        with Network(ranks, ShapedLink(rate)) as network:
            (found,) = launched(network, __file__)
        rows.append({"rate_bits_per_second": rate, "ranks": ranks, "seconds": found})
        print(f"{ShapedLink(rate)}, {ranks} ranks:", {k: round(v, 4) for k, v in found.items()})
    about = {"bytes": BYTES, "piece": _PIECE, "rounds": _ROUNDS}
    _RESULTS.write_text(json.dumps(about | {"links": rows}, indent=1) + "\n")


def rank(work: str) -> None:
    """One rank: all ways take turns, and the slowest rank counts."""
    number, ranks = join(work)
    part = BYTES // (ranks - 1)
    outgoing = torch.zeros(ranks, part, dtype=torch.uint8)
    incoming = torch.zeros_like(outgoing)
    splits = [0 if other == number else part for other in range(ranks)]
    mine = outgoing.view(-1)[: sum(splits)], incoming.view(-1)[: sum(splits)]

    def all_to_all() -> None:
        dist.all_to_all_single(mine[1], mine[0], splits, splits)

    def point_to_point(piece: int, *, receives_first: bool) -> None:
        under_way = []
        others = [(number + step) % ranks for step in range(1, ranks)]
        ways: list[tuple[Callable[..., Any], torch.Tensor]] = [
            (dist.irecv, incoming),
            (dist.isend, outgoing),
        ]
        for operation, buffer in ways if receives_first else reversed(ways):
            for start, other in product(range(0, part, piece), others):
                under_way.append(operation(buffer[other, start : start + piece], other))
        for one in under_way:
            one.wait()

    ways: dict[str, Callable[[], None]] = {
        "point to point": lambda: point_to_point(part, receives_first=True),
        "in pieces": lambda: point_to_point(_PIECE, receives_first=True),
        "sends first": lambda: point_to_point(part, receives_first=False),
        "all_to_all_single": all_to_all,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(_ROUNDS + 1):
        for name, way in ways.items():
            dist.barrier()
            began = time.perf_counter()
            way()
            slowest = torch.tensor([time.perf_counter() - began])
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            if round_:  # the first one makes connections
                seconds[name].append(slowest.item())
    tell(number, {name: statistics.median(own) for name, own in seconds.items()})
    leave()


if __name__ == "__main__":
    main()
