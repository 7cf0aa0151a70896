"""Data-parallel training that goes on without a killed worker, and takes it back.

    fewbits launch --workers 4 --restarts 3 examples/ddp_survivors.py

Then kill one, `kill -9 <its process>`: the others repeat the step's exchange among themselves and
go on. The launcher starts it again, and it gets model, optimizer and step from the others.
It needs fewbits[torch] and nothing else.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fewbits.ddp


def main() -> None:
    """Fit a small network to a made-up function on every worker's own data."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds, to see more of it")
    options = parser.parse_args()

    # DDP's own group is this worker alone: torch's groups end with any of their ranks.
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64), torch.nn.Tanh(),
        torch.nn.Linear(64, 1),
    )  # fmt: skip
    model = DistributedDataParallel(net, forward_sync_buffers=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    compression = fewbits.ddp.attach(
        model,
        "natural:coder=rans",
        on_failure="continue",
        meeting=fewbits.ddp.MeetingPlace.of_launcher(state=[optimizer]),
    )

    # Each worker of the launcher has its own data, whatever its rank is at present.
    own = torch.Generator().manual_seed(int(os.environ["FEWBITS_WORKER"]))
    size = 0
    while compression.step < options.steps:  # steps of all, also those before this worker came
        step = compression.step
        x = torch.randn(128, 64, generator=own)
        y = x[:, :8].sum(dim=1, keepdim=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if compression.rank == 0 and (step % 50 == 0 or compression.size != size):
            line = f"step {step}: loss {loss.item():.4f}, {compression.size} workers"
            print(line, flush=True)
        size = compression.size
        time.sleep(options.pause)

    total = sum(each.double().sum().item() for each in net.parameters())
    print(f"process {os.getpid()} ends with {total!r}, lost {compression.report().lost_ranks}")
    compression.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
