"""R21: a process that works for long and stays as it is; prints the growth of its memory in MiB.

python tests/soaking/steady.py train STEPS RANK STORE | calls NUMBER | refusals NUMBER
"""

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import fewbits

GROWTH = 8.0  # MiB from the second quarter to the last
SAMPLES = 200
SPECS = ("natural", "natural:coder=rans", "sparse-dithering", "top-k:fraction=0.1|natural",
         "hadamard|natural", "standard-dithering", "sign", "float16", "identity", "bfloat16",
         "natural-dithering:coder=rans", "spherical", "rand-k|natural", "hadamard|sign",
         "sparse-dithering:coder=paper,block=64", "rand-k|hadamard|spherical")  # fmt: skip


class Watch:
    """Memory, open files and threads of this process, now and then."""

    def __init__(self, total: int) -> None:
        self.every = max(1, total // SAMPLES)
        self.memory: list[float] = []
        self.others: list[tuple[int, int]] = []

    def look(self, number: int) -> None:
        if number % self.every:
            return
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.memory.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        files, tasks = (len(list(Path("/proc/self", name).iterdir())) for name in ("fd", "task"))
        self.others.append((files, tasks))

    def tell(self) -> None:
        quarter = len(self.memory) // 4
        second, last = self.memory[quarter : 2 * quarter], self.memory[-quarter:]
        growth = float(np.mean(last) - np.mean(second))
        settled = set(self.others[quarter:])
        if len(settled) > 1:
            sys.exit(f"open files and threads were {sorted(settled)}")
        sys.stdout.write(f"files={self.others[-1][0]} growth={growth:.3f}\n")
        if growth > GROWTH:
            sys.exit(f"memory grew by {growth:.1f} MiB: {self.memory[::quarter]}")


def train(watch: Watch, steps: int, own: str, store: str) -> None:
    import torch
    import torch.distributed as dist

    from fewbits import ddp

    torch.set_num_threads(1)
    rank = int(own)
    dist.init_process_group(
        "gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2,
        timeout=timedelta(seconds=60),
    )  # fmt: skip
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(32, 257), torch.nn.Tanh(), torch.nn.Linear(257, 65), torch.nn.Tanh(),
        torch.nn.Linear(65, 3),
    )  # fmt: skip
    model = torch.nn.parallel.DistributedDataParallel(net)
    state = ddp.attach(model, "natural:coder=rans", policy=lambda name, shape: None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    source = torch.Generator().manual_seed(rank)
    for step in range(steps):
        optimizer.zero_grad()
        x, y = (torch.randn(8, n, generator=source) for n in (32, 3))
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        watch.look(step)
    state.close()
    dist.barrier()


def calls(watch: Watch, number: int) -> None:
    vectors = [np.random.default_rng(n).standard_normal(64 + 31 * n).astype("f4") for n in range(9)]
    for turn in range(number):
        x, spec = vectors[turn % len(vectors)], SPECS[turn % len(SPECS)]
        y = fewbits.decompress(fewbits.compress(x, spec, seed=turn))
        assert y.shape == x.shape
        watch.look(turn)


def refusals(watch: Watch, number: int) -> None:
    frame = bytearray(fewbits.compress(np.arange(100, dtype=np.float32), "natural", seed=1))
    for turn in range(number):
        at = turn % len(frame)
        frame[at] ^= 1 + turn % 255
        try:
            fewbits.decompress(bytes(frame))
        except fewbits.DecodeError:
            pass
        else:
            raise AssertionError("a damaged frame was accepted")
        frame[at] ^= 1 + turn % 255
        watch.look(turn)


def main() -> None:
    what, number, *more = sys.argv[1:]
    watch = Watch(int(number))
    known: dict[str, Callable[..., None]] = {"train": train, "calls": calls, "refusals": refusals}
    known[what](watch, int(number), *more)
    watch.tell()


if __name__ == "__main__":
    main()
