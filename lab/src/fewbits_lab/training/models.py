"""The paper's image models: ResNets for 32 x 32 pixels, AlexNet, and one that is like it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fewbits.train.data import Dataset
from fewbits.train.models import Cnn, Gpt

_CLASSES = 10


class PaperResNet(nn.Sequential):
    """`depth` = 6n + 2 layers as He et al. (2016) have them for CIFAR-10, batch norm included."""

    def __init__(self, depth: int) -> None:
        each, rest = divmod(depth - 2, 6)
        assert not rest, f"depth must be 6n + 2, got {depth}"
        widths = [16] * each + [32] * each + [64] * each
        super().__init__(
            nn.Conv2d(3, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            *(BatchNormBlock(a, b) for a, b in zip([16, *widths], widths, strict=False)),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, _CLASSES),
        )


class BatchNormBlock(nn.Module):
    """Two convolutions beside a shortcut; halves the resolution if the width grows.

    A `learned` shortcut is a convolution then. Otherwise it has no parameters: every other pixel,
    and zeros for new channels.
    """

    def __init__(self, inside: int, outside: int, *, learned: bool = False) -> None:
        super().__init__()
        self._stride, self._new = (1 if inside == outside else 2), outside - inside
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, self._stride, padding=1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.shortcut = (
            nn.Sequential(
                nn.Conv2d(inside, outside, 1, self._stride, bias=False), nn.BatchNorm2d(outside)
            )
            if learned and self._new
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.shortcut is not None:
            return torch.relu(self.body(x) + self.shortcut(x))
        kept = x[:, :, :: self._stride, :: self._stride]
        padded = nn.functional.pad(kept, (0, 0, 0, 0, 0, self._new)) if self._new else kept
        return torch.relu(self.body(x) + padded)


class AlexNet(nn.Sequential):
    """Krizhevsky et al. (2012) without groups: 62.4 M parameters for images of 227 x 227."""

    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv2d(3, 96, 11, 4), nn.ReLU(), nn.MaxPool2d(3, 2)),
            *(nn.Conv2d(96, 256, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
            *(nn.Conv2d(256, 384, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(384, 384, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)),
            *(nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU()),
            nn.Linear(4096, 1000),
        )


class AlexNetLike(nn.Sequential):
    """AlexNet's five convolutions and three linear layers, small, with batch norm: 1.1 M.

    With `hidden` 2048 it has 5.8 M parameters, 5.3 M of them in its linear layers, as AlexNet has
    most of its own there.
    """

    def __init__(self, hidden: int = 512) -> None:
        super().__init__(
            *_convolution(3, 32, stride=2, pool=True),
            *_convolution(32, 96, pool=True),
            *_convolution(96, 192),
            *_convolution(192, 128),
            *_convolution(128, 128, pool=True),
            nn.Flatten(),
            *(nn.Linear(512, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()),
            nn.Linear(hidden, _CLASSES),
        )


def _convolution(
    inside: int, outside: int, *, stride: int = 1, pool: bool = False
) -> tuple[nn.Module, ...]:
    layers = (
        nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
    )
    return (*layers, nn.MaxPool2d(2)) if pool else layers


def build(model: str, dataset: Dataset) -> nn.Module:
    """A fresh model of `plan`; its parameters follow from torch's seed."""
    if model == "GPT":
        return Gpt(dataset.classes)
    if model == "CNN":
        channels, side = dataset.train.inputs.shape[1:3]
        return Cnn(channels, side, dataset.classes)
    makers: dict[str, Callable[[], nn.Module]] = {
        "ResNet-20": lambda: PaperResNet(20),
        "AlexNet-like": AlexNetLike,
        "AlexNet-like, 6 M": lambda: AlexNetLike(2048),
    }
    return makers[model]()


def parameters(net: nn.Module) -> int:
    """How many there are."""
    return sum(own.numel() for own in net.parameters())
