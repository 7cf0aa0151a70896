"""Lightning: a callback attaches the compression to the model that its DDP strategy has wrapped.

    python examples/ddp_lightning.py

Lightning's own arguments work too, but Lightning registers them on CUDA devices only:
`DDPStrategy(ddp_comm_state=fewbits.ddp.Compression("natural"), ddp_comm_hook=fewbits.ddp.hook)`.
"""

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy

import fewbits.ddp


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
        """Plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.05)


class Compress(lightning.Callback):
    """Compresses gradients in both directions."""

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        """Attach to the wrapped model, on every rank."""
        self.compression = fewbits.ddp.attach(trainer.strategy.model, "natural")

    def on_train_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        """Print the report on rank 0."""
        if trainer.is_global_zero:
            print(self.compression.report())
        self.compression.close()


def main() -> None:
    """Train with two processes on this machine."""
    torch.manual_seed(0)
    x = torch.randn(1024, 64)
    data = torch.utils.data.TensorDataset(x, x[:, :8].sum(dim=1, keepdim=True))
    trainer = lightning.Trainer(
        strategy=DDPStrategy(process_group_backend="gloo"),
        callbacks=[Compress()],
        accelerator="cpu",
        devices=2,
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Regression(), torch.utils.data.DataLoader(data, batch_size=64))


if __name__ == "__main__":
    main()
