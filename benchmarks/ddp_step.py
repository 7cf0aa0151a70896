"""Two ranks in network namespaces of their own: what a compressed step costs, beside plain DDP.

Run as root on Linux: `python benchmarks/ddp_step.py`. Makes two namespaces joined by an unshaped
veth pair, trains a 10 M parameter model with plain DDP and with each operator, interleaved in one
process, and writes `benchmarks/results/ddp_step.json`: median step times, codec seconds as
multiples of one memcpy of the gradient (timed on both ranks at once), bytes counted by the
interface beside those of `report()`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

PREFIX = f"fewbits{os.getpid()}"
RESULTS = Path(__file__).parent / "results" / "ddp_step.json"


def main() -> None:
    """Set up, run, tear down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operators", nargs="+", default=["natural"])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        worker(arguments.rank, arguments.operators, arguments.steps)
        return
    try:
        lay_link()
        ranks = [start(rank, sys.argv[1:]) for rank in (0, 1)]
        if any(rank.wait(600) for rank in ranks):
            sys.exit("a rank failed")
    finally:
        for rank in (0, 1):
            subprocess.run(["ip", "netns", "delete", f"{PREFIX}-{rank}"], check=False)


def lay_link() -> None:
    """Two namespaces, one veth pair, addresses 10.77.0.1 and 10.77.0.2."""
    ip = lambda *words: subprocess.run(["ip", *words], check=True)  # noqa: E731
    for rank in (0, 1):
        ip("netns", "add", f"{PREFIX}-{rank}")
    ip("link", "add", "veth0", "netns", f"{PREFIX}-0", "type", "veth",
       "peer", "name", "veth0", "netns", f"{PREFIX}-1")  # fmt: skip
    for rank in (0, 1):
        inside = ("-n", f"{PREFIX}-{rank}")
        ip(*inside, "address", "add", f"10.77.0.{rank + 1}/24", "dev", "veth0")
        ip(*inside, "link", "set", "veth0", "up")
        ip(*inside, "link", "set", "lo", "up")


def start(rank: int, words: list[str]) -> subprocess.Popen[bytes]:
    """One rank inside its namespace."""
    environment = os.environ | {
        "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500",
        "GLOO_SOCKET_IFNAME": "veth0", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = ["ip", "netns", "exec", f"{PREFIX}-{rank}", sys.executable, __file__, *words]
    return subprocess.Popen([*command, "--rank", str(rank)], env=environment)


def worker(rank: int, operators: list[str], steps: int) -> None:
    """Train every variant, interleaved, and write the figures on rank 0."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    variants = {name: build(name) for name in ("plain", *operators)}
    times: dict[str, list[float]] = {name: [] for name in variants}
    copies, seen = [], dict.fromkeys(variants, 0)
    for round_ in range(steps + 3):  # the first three warm up
        copies.append(timed_copy())
        for name, (step, _) in variants.items():
            dist.barrier()
            before, began = interface_bytes(), time.perf_counter()
            step()
            elapsed = time.perf_counter() - began
            if round_ >= 3:
                times[name].append(elapsed)
                seen[name] += interface_bytes() - before
            elif round_ == 2:
                reset(variants[name][1])
    if rank == 0:
        publish(variants, times, seen, statistics.median(copies), steps)
    dist.destroy_process_group()


def build(name: str):
    """A model of 10 M parameters, a training step, and its compression."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    import fewbits.ddp

    torch.manual_seed(0)
    sizes = [1024, 2048, 2048, 1536, 384, 10]
    layers = []
    for width, following in pairwise(sizes):
        layers += [torch.nn.Linear(width, following), torch.nn.ReLU()]
    model = DistributedDataParallel(torch.nn.Sequential(*layers[:-1]))
    compression = None if name == "plain" else fewbits.ddp.attach(model, name)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x, y = torch.randn(16, 1024), torch.randint(0, 10, (16,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step, compression


def reset(compression) -> None:
    """Forget what the warm-up cost."""
    if compression is not None:
        from fewbits.schemes.reduction import Spent

        compression.progress.spent = Spent()


def timed_copy() -> float:
    """Seconds of one memcpy of 40 MB, at the same time on both ranks."""
    import numpy as np
    import torch.distributed as dist

    if not hasattr(timed_copy, "arrays"):
        timed_copy.arrays = np.ones(10_000_000, np.float32), np.ones(10_000_000, np.float32)
    source, target = timed_copy.arrays
    dist.barrier()
    began = time.perf_counter()
    np.copyto(target, source)
    return time.perf_counter() - began


def interface_bytes() -> int:
    """What the link's interface has sent."""
    return int(Path("/sys/class/net/veth0/statistics/tx_bytes").read_text())


def publish(variants, times, seen, copy: float, steps: int) -> None:
    """Print and write the figures."""
    rows = []
    for name, (_, compression) in variants.items():
        row = {
            "operator": name,
            "step_seconds_median": statistics.median(times[name]),
            "interface_bytes": seen[name] / steps,
        }
        if compression is not None:
            report = compression.report()
            reported = report.payload_bytes + report.header_bytes
            row |= {
                "reported_bytes": reported / steps,
                "interface_over_reported": seen[name] / reported,
                "codec_seconds": report.codec_seconds / steps,
                "codec_memcpys": report.codec_seconds / steps / copy,
                "codec_cpu_memcpys": report.codec_cpu_seconds / steps / copy,
                "wire_seconds": report.wire_seconds / steps,
                "ratio": report.ratio,
            }
        rows.append(row)
    result = {"parameters": 10_000_000, "ranks": 2, "memcpy_seconds": copy, "rows": rows}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
