"""Small models of well-known kinds, without buffers and dropout."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from fewbits.train.data import CONTEXT, Dataset

_WIDTH = 128  # of the language model
_LAYERS = 4
_HEADS = 4


def build(model: str, dataset: Dataset) -> nn.Module:
    if model == "gpt":
        return Gpt(dataset.classes)
    channels, side = dataset.train.inputs.shape[1:3]
    if model == "mlp":
        return Mlp(channels * side * side, dataset.classes)
    return (Cnn if model == "cnn" else ResNet)(channels, side, dataset.classes)


class Cnn(nn.Sequential):
    """Three convolutions of 64 channels and a hidden layer of 256.

    Nearly all elements are in large matrices, which compression is made for.
    """

    def __init__(self, channels: int, side: int, classes: int) -> None:
        # Small images keep their size through two convolutions, large ones are halved at once.
        first = nn.MaxPool2d(2) if side > 8 else nn.Identity()
        side = (side // 2 if side > 8 else side) // 2
        super().__init__(
            nn.Sequential(nn.Conv2d(channels, 64, 3, padding=1), nn.ReLU(), first),
            nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Flatten()),
            nn.Sequential(nn.Linear(64 * side * side, 256), nn.ReLU()),
            nn.Linear(256, classes),
        )


class Mlp(nn.Sequential):
    """Hidden layers of 1024, 1024 and 512: many parameters, and little to compute with them.

    That is where the link decides how long a step takes.
    """

    def __init__(self, pixels: int, classes: int) -> None:
        sizes = (pixels, 1024, 1024, 512)
        hidden = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)]
        super().__init__(nn.Flatten(), *hidden, nn.Linear(sizes[-1], classes))


class ResNet(nn.Sequential):
    """Twenty layers as in ResNet-20 (He et al., 2016), twice as wide at half the resolution.

    It has the same work and four times the parameters. Group norm replaces batch norm, because
    statistics of a worker's share of the batch would make results depend on the number of workers.
    """

    def __init__(self, channels: int, side: int, classes: int) -> None:
        stem = [nn.Conv2d(channels, 32, 3, padding=1, bias=False), nn.GroupNorm(8, 32), nn.ReLU()]
        if side > 16:
            stem.append(nn.MaxPool2d(2))
        widths = [32, 32, 32, 64, 64, 64, 128, 128, 128]
        blocks = [ResidualBlock(a, b) for a, b in zip([32, *widths], widths, strict=False)]
        head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes))
        super().__init__(nn.Sequential(*stem), *blocks, *head)


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut; halves the resolution if the width grows."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        stride = 1 if inside == outside else 2
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False),
            nn.GroupNorm(8, outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            norm := nn.GroupNorm(8, outside),
        )
        nn.init.zeros_(norm.weight)  # every block starts as its shortcut: learning starts at once
        self.shortcut = (
            nn.Identity() if stride == 1 else nn.Conv2d(inside, outside, 1, stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class Gpt(nn.Module):
    """A character-level GPT: causal attention, learned positions, norms before the layers."""

    def __init__(self, characters: int, *, width: int = _WIDTH, layers: int = _LAYERS) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.places = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        self.layers = nn.Sequential(*(Layer(width) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, characters))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.characters(x) + self.places[: x.shape[1]]
        logits: Tensor = self.head(self.layers(hidden))
        return logits


class Layer(nn.Module):
    """Attention, then two linear layers, each added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.think = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = self.mix(self.norm(x)).view(batch, length, 3, _HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind(0)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        thought: Tensor = self.think(x)
        return x + thought
