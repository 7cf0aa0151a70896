"""Hybrid sharded training: shards inside a node, and compression between nodes only.

It needs fewbits[torch] and nothing else. Start it with one process for each worker; the first half
of them plays one node, the second half another:

    torchrun --nproc-per-node 4 examples/hsdp.py
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import fewbits.fsdp


def main() -> None:
    """Fit a small network to a made-up function on every rank's own data."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64), torch.nn.Tanh(),
        torch.nn.Linear(64, 1),
    )  # fmt: skip
    nodes = 2
    mesh = init_device_mesh(
        "cpu", (nodes, dist.get_world_size() // nodes), mesh_dim_names=("replicate", "shard")
    )
    for layer in model[::2]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    compression = fewbits.fsdp.attach(model, "natural")  # <- this line
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    own = torch.Generator().manual_seed(dist.get_rank())
    for step in range(60):
        x = torch.randn(128, 64, generator=own)
        y = x[:, :8].sum(dim=1, keepdim=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")

    if dist.get_rank() == 0:
        print(compression.report())  # <- and this one, to see what it did
    compression.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
