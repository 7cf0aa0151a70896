"""Train four small models and keep the gradients of some steps, for `fewbits-lab coders`.

    python -m fewbits_lab.recordings [--models cnn resnet alexnet gpt] [--out DIR]

writes flat float32 vectors `DIR/MODEL-stepNNNN.npy`, parameters in the model's order, and
`DIR/gradients.json` with what they are. Nothing is downloaded: images are the digits that come with
scikit-learn, text is the source of Python's standard library unless `--text` names a file. The same
torch on the same kind of processor records the same values.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fewbits.train import data, models
from fewbits_lab.recordings import training as recording
from fewbits_lab.recordings.training import Batches
from fewbits_lab.training.models import AlexNetLike, BatchNormBlock

OUT = Path("gradients")
STEPS = (2, 10, 40)
_SEED = 0
SIDE, LARGE_BATCH = 32, 16  # of the enlarged images
LETTERS = 2_000_000  # of text at most
_CONTEXT, SEQUENCES = 128, 16  # of a batch of text
WIDTH, LAYERS, HEADS = 192, 6, 6  # of the language model

Recipe = tuple[nn.Module, torch.optim.Optimizer, Batches]


def main() -> None:
    """Record what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--models", nargs="+", choices=RECIPES, default=list(RECIPES), metavar="MODEL",
        help=f"any of {', '.join(RECIPES)}",
    )  # fmt: skip
    parser.add_argument(
        "--steps", nargs="+", type=_step, default=list(STEPS), metavar="N",
        help="steps whose gradients are kept, counted from 1; training ends with the last",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="where vectors go")
    parser.add_argument(
        "--text", type=Path, metavar="FILE",
        help="what the language model reads (None: the source of the standard library)",
    )  # fmt: skip
    options = parser.parse_args()
    # One thread: sums have one order, and busy cores do not wait for each other.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    options.out.mkdir(parents=True, exist_ok=True)
    about = options.out / "gradients.json"
    known = json.loads(about.read_text()) if about.exists() else {}
    for model in options.models:
        known |= record(model, sorted(set(options.steps)), options.out, options.text)
        about.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n")


def record(
    name: str, steps: list[int], out: Path, text: Path | None
) -> dict[str, dict[str, object]]:
    """Train one model to the last of `steps`; what was written, by file name."""
    torch.manual_seed(_SEED)
    began, kept, size = time.monotonic(), {}, 0
    for step in recording.train(*RECIPES[name](text), steps):
        if step.gradients:
            size = step.vector.size
            if not np.isfinite(step.vector).all():
                sys.exit(f"{name}: the gradient of step {step.number} is not finite")
            file = f"{name}-step{step.number:04}.npy"
            np.save(out / file, step.vector)
            kept[file] = {
                "model": name, "step": step.number, "values": size, "loss": step.loss,
                "torch": torch.__version__, "seed": _SEED,
            }  # fmt: skip
        _show(
            f"{name}: step {step.number}/{steps[-1]}, loss {step.loss:.3f}, "
            f"{time.monotonic() - began:.0f} s",
            last=step.number == steps[-1],
        )
    _show(f"{name}: {len(kept)} vectors of {size:,} values in {out}", last=True)
    return kept


def cnn(_: Path | None) -> Recipe:
    """The convolutional network of `fewbits train`, trained as there: momentum, plain batches."""
    digits = data.load("digits")
    model = models.build("cnn", digits)
    return (
        model,
        torch.optim.SGD(model.parameters(), 0.05, momentum=0.9),
        recording.shuffled(digits, _SEED),
    )


def resnet(_: Path | None) -> Recipe:
    """ResNet-18 (He et al., 2016) with the small stem that images of 32x32 pixels need.

    The digits are enlarged to that size. At their own 8x8 the last stage would see single pixels:
    eight of nine taps of its kernels, most of the model, would get no gradient at all, which no
    real training does.
    """
    digits = data.load("digits")
    widths = (64, 64, 128, 128, 256, 256, 512, 512)
    pairs = zip((64, *widths), widths, strict=False)
    blocks = [BatchNormBlock(a, b, learned=True) for a, b in pairs]
    stem = (nn.Conv2d(1, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, digits.classes))
    model = nn.Sequential(*stem, *blocks, *head)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
    return model, optimizer, _enlarged(recording.shuffled(digits, _SEED, LARGE_BATCH))


def alexnet(_: Path | None) -> Recipe:
    """AlexNet's layers, small, on the enlarged digits, whose grey is given as three colours."""
    digits = data.load("digits")
    model = AlexNetLike()
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4)
    batches = _enlarged(recording.shuffled(digits, _SEED))
    return model, optimizer, ((x.expand(-1, 3, -1, -1), y) for x, y in batches)


def gpt(text: Path | None) -> Recipe:
    """A character-level GPT with norms before the layers, trained with AdamW."""
    letters = np.frombuffer(_read(text).encode("utf-32-le"), "<u4")
    alphabet, ids = np.unique(letters, return_inverse=True)
    if len(ids) <= _CONTEXT:
        sys.exit(f"the text has {len(ids)} characters, more than {_CONTEXT} are needed")
    model = WideGpt(len(alphabet))
    return model, torch.optim.AdamW(model.parameters(), 1e-3), _sequences(ids.astype(np.int64))


RECIPES: dict[str, Callable[[Path | None], Recipe]] = {
    "cnn": cnn,
    "resnet": resnet,
    "alexnet": alexnet,
    "gpt": gpt,
}


class WideGpt(nn.Module):
    """Embeddings of characters and places, causal layers, one linear layer on top."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.places = nn.Parameter(torch.randn(_CONTEXT, WIDTH) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        )
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters))

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the next character at every place."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        hidden = self.characters(x) + self.places[: x.shape[1]]
        for layer in self.layers:
            hidden = layer(hidden, src_mask=mask, is_causal=True)
        return torch.as_tensor(self.head(hidden))


def _enlarged(batches: Batches) -> Batches:
    for inputs, targets in batches:
        yield nn.functional.interpolate(inputs, size=(SIDE, SIDE), mode="bilinear"), targets


def _sequences(ids: np.ndarray) -> Batches:
    """Batches of places drawn at random."""
    draw = np.random.default_rng(_SEED)
    while True:
        starts = draw.integers(0, len(ids) - _CONTEXT, SEQUENCES)
        rows = torch.from_numpy(np.stack([ids[at : at + _CONTEXT + 1] for at in starts]))
        yield rows[:, :-1], rows[:, 1:]


def _read(text: Path | None) -> str:
    """The text; by default modules of the standard library in order of name."""
    if text is not None:
        return text.read_text(encoding="utf-8")[:LETTERS]
    return recording.bundled_text(LETTERS)


def _step(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return int(text)


def _show(line: str, *, last: bool) -> None:
    """A line on stderr that changes on a terminal; elsewhere only the last one is printed."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="\n" if last else "", file=sys.stderr, flush=True)
    elif last:
        print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
