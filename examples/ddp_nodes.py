"""Data-parallel training on nodes: plain sums inside a node, compression between nodes only.

Start it on every node with one process for each worker. Here a machine plays two nodes:

    torchrun --nproc-per-node 4 examples/ddp_nodes.py --nodes 2

On real nodes leave `--nodes` out: torchrun says how many workers a node has.
It needs fewbits[torch] and nothing else.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import fewbits.ddp


def main() -> None:
    """Fit a small network to a made-up function on every rank's own data."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int)
    nodes = parser.parse_args().nodes
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    nodes = nodes or world // int(os.environ["LOCAL_WORLD_SIZE"])
    if world % nodes:
        parser.error(f"{world} workers do not fill {nodes} nodes evenly")

    # torchrun numbers the workers of a node one after the other: a row of the mesh is a node.
    mesh = init_device_mesh("cpu", (nodes, world // nodes), mesh_dim_names=("node", "local"))
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64), torch.nn.Tanh(),
        torch.nn.Linear(64, 1),
    )  # fmt: skip
    model = DistributedDataParallel(net)
    compression = fewbits.ddp.attach(model, "natural", across=mesh["node"])
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
        print(compression.report())
    compression.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
