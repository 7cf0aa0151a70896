"""Lightning with LocalSGD: each process has a trainer of its own, a callback does the exchange.

    torchrun --nproc-per-node 2 examples/local_sgd_lightning.py

It needs fewbits[torch] and lightning. Lightning knows of one device only: its DDP strategy would
exchange gradients in every step.
"""

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.plugins.environments import LightningEnvironment

import fewbits.localsgd


class Regression(lightning.LightningModule):
    """A small network fitted to a made-up function."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1)
        )

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """The squared error on a batch."""
        x, y = batch
        return torch.nn.functional.mse_loss(self.net(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW, as in DiLoCo."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Rounds(lightning.Callback):
    """Exchanges changes after every eight steps."""

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        """Attach; all ranks begin with rank 0's parameters."""
        self.outer = fewbits.localsgd.attach(
            module, "natural:coder=rans", local_steps=8, outer="nesterov"
        )

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: object) -> None:
        """After each step of the optimizer."""
        self.outer.step()

    def on_train_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        """Exchange once more, because the last round may have been cut short."""
        self.outer.sync()
        total = sum(own.double().sum().item() for own in module.parameters())
        print(f"rank {dist.get_rank()}: the parameters add up to {total!r}")
        if dist.get_rank() == 0:
            print(self.outer.report())
        self.outer.close()


class Alone(LightningEnvironment):
    """Keeps Lightning from taking torchrun's processes for its own."""

    def __init__(self) -> None:
        super().__init__()
        self.set_world_size(1)

    def world_size(self) -> int:
        """Tell Lightning that there is one process."""
        return 1


def main() -> None:
    """Train on every rank's own data."""
    dist.init_process_group("gloo")
    own = torch.Generator().manual_seed(dist.get_rank())
    x = torch.randn(2048, 64, generator=own)
    data = torch.utils.data.TensorDataset(x, x[:, :8].sum(dim=1, keepdim=True))
    trainer = lightning.Trainer(
        plugins=[Alone()], callbacks=[Rounds()], accelerator="cpu", devices=1, max_epochs=2,
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Regression(), torch.utils.data.DataLoader(data, batch_size=32))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
