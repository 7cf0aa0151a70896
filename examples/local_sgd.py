"""LocalSGD and DiLoCo: each rank trains alone for 16 steps, then all exchange what has changed.

Start it with one process for each worker:

    torchrun --nproc-per-node 2 examples/local_sgd.py             # averages the ranks' parameters
    torchrun --nproc-per-node 2 examples/local_sgd.py nesterov    # the outer step of DiLoCo

It needs fewbits[torch] and nothing else. The three marked lines are all that fewbits adds to a
program that trains on one machine.
"""

import sys

import torch
import torch.distributed as dist

import fewbits.localsgd


def main() -> None:
    """Fit a small network to a made-up function on every rank's own data."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64), torch.nn.Tanh(),
        torch.nn.Linear(64, 1),
    )  # fmt: skip
    how = sys.argv[1] if len(sys.argv) > 1 else "sgd"
    outer = fewbits.localsgd.attach(  # <- this line: not wrapped in DistributedDataParallel
        net, "natural:coder=rans", local_steps=16, outer=how
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    own = torch.Generator().manual_seed(dist.get_rank())
    for step in range(320):
        x = torch.randn(128, 64, generator=own)
        y = x[:, :8].sum(dim=1, keepdim=True)
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        outer.step()  # <- this one: every 16th call exchanges
        if dist.get_rank() == 0 and step % 80 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    outer.sync()  # <- and this one, if the last round may have been cut short

    if dist.get_rank() == 0:
        print(f"step {step}: loss {loss.item():.4f}")
        print(outer.report())
    outer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
