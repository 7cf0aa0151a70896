"""Hugging Face's `Trainer` with our callback, in the process group of a scenario."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from scenarios import IN, OUT, Net, digest, everything
from torch import nn
from workers import World


class Rows(torch.utils.data.Dataset):
    """Inputs and targets, the same in every run."""

    def __init__(self, count: int = 64) -> None:
        source = torch.Generator().manual_seed(3)
        self.x = torch.randn(count, IN, generator=source)
        self.y = torch.randn(count, OUT, generator=source)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"x": self.x[place], "labels": self.y[place]}


class WithLoss(nn.Module):
    """A model as the trainer wants it: it returns its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.net(x)
        return {"loss": nn.functional.mse_loss(y, labels), "logits": y}


def _trainer(folder: Path, steps: int) -> Any:
    from transformers import Trainer, TrainingArguments

    torch.manual_seed(0)
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=4,
        learning_rate=0.01,
        lr_scheduler_type="constant",
        save_steps=2,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        ddp_backend="gloo",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    return Trainer(WithLoss(), arguments, train_dataset=Rows())


def hugging_face(world: World) -> None:
    """A plain training, an exact one, and a lossy one that is resumed from its checkpoint."""
    os.environ |= {
        "RANK": str(world.rank),
        "LOCAL_RANK": str(world.rank),
        "WORLD_SIZE": str(world.size),
        "ACCELERATE_USE_CPU": "true",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }
    world.join()
    import fewbits.huggingface

    def run(name: str, uplink: str | None, **options: Any) -> tuple[str, Any]:
        trainer = _trainer(world.folder / name, 4)
        callback = None
        if uplink is not None:
            callback = fewbits.huggingface.attach(trainer, uplink, policy=everything, **options)
        trainer.train(**resumed)
        return digest(trainer.model), callback

    resumed: dict[str, Any] = {}
    world.result["plain"], _ = run("plain", None)
    world.result["identity"], _ = run("identity", "identity")
    world.result["natural"], callback = run("natural", "natural", feedback="ef14")
    report = callback.report()
    world.result |= {"ratio": report.ratio, "steps": report.steps}
    resumed = {"resume_from_checkpoint": str(world.folder / "natural" / "checkpoint-2")}
    world.result["resumed"], callback = run("natural", "natural", feedback="ef14")
    world.result["resumed steps"] = callback.report().steps
    world.leave()


SCENARIOS: dict[str, Callable[..., None]] = {"hugging face": hugging_face}
