"""Ray Train: one line attaches the compression to the model that Ray has wrapped.

    python examples/ddp_ray.py

It needs fewbits[torch] and ray[train]. Here Ray starts two workers on this machine; on a cluster
leave `ray.init` out.
"""

import tempfile

import ray
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model

import fewbits.ddp


def train() -> None:
    """Fit a small network to a made-up function; each worker has its own data."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64), torch.nn.Tanh(),
        torch.nn.Linear(64, 1),
    )  # fmt: skip
    model = prepare_model(net)
    compression = fewbits.ddp.attach(model, "natural")  # <- this line
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    rank = ray.train.get_context().get_world_rank()
    own = torch.Generator().manual_seed(rank)
    first = last = 0.0
    for step in range(60):
        x = torch.randn(128, 64, generator=own)
        loss = torch.nn.functional.mse_loss(model(x), x[:, :8].sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        first, last = (loss.item() if step == 0 else first), loss.item()

    if rank == 0:
        print(f"loss {first:.4f} to {last:.4f}")
        print(compression.report())  # <- and this one, to see what it did
    compression.close()


def main() -> None:
    """Train with two workers on this machine."""
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")
    with tempfile.TemporaryDirectory() as folder:
        trainer = TorchTrainer(
            train,
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
            run_config=RunConfig(storage_path=folder),
        )
        trainer.fit()
    ray.shutdown()


if __name__ == "__main__":
    main()
