"""Streaming DiLoCo: four fragments of a model are exchanged one after the other, while all train.

Start it with one process for each worker:

    torchrun --nproc-per-node 2 examples/streaming.py

It needs fewbits[torch] and nothing else. A link carries a quarter of the model at a time, and has
two steps for it. The program prints the bytes of the step that sends most.
"""

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
    outer = fewbits.localsgd.attach(  # <- not wrapped in DistributedDataParallel
        net, "natural:coder=rans", local_steps=16, outer="nesterov",
        fragments=4,  # a fragment every 4th step
        delay=2,      # it travels during two steps
        blend=0.5,    # then each rank goes on from the middle of its own values and the common ones
    )  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    own = torch.Generator().manual_seed(dist.get_rank())
    exchanges, most = 0, 0
    for step in range(320):
        x = torch.randn(128, 64, generator=own)
        y = x[:, :8].sum(dim=1, keepdim=True)
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        exchanges += outer.step()  # <- after every step
        most = max(most, outer.last_step().sent_bytes)
        if dist.get_rank() == 0 and step % 80 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    outer.sync()  # <- all ranks are equal, until they train on

    if dist.get_rank() == 0:
        print(f"step {step}: loss {loss.item():.4f}")
        report = outer.report()
        print(report)
        print(
            f"{exchanges} exchanges, at most {most / 1e3:.1f} of {report.model_bytes / 1e3:.1f} kB"
        )
    outer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
