"""Training and test sets as plain arrays, and the samples of each rank in each step."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fewbits.errors import SpecError
from fewbits.train import formats
from fewbits.train.extras import require

DataArray = np.ndarray[Any, np.dtype[Any]]
CONTEXT = 64  # characters that the language model sees


@dataclass(frozen=True, slots=True)
class LabelledSamples:
    """Samples and their targets: a class each, or the next character at every place."""

    inputs: DataArray
    targets: DataArray


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set; images stay bytes and are scaled batch by batch to save memory."""

    name: str
    train: LabelledSamples
    test: LabelledSamples
    classes: int

    @property
    def is_text(self) -> bool:
        return self.train.inputs.ndim == 2

    def batch(self, split: LabelledSamples, chosen: DataArray) -> tuple[DataArray, DataArray]:
        inputs, targets = split.inputs[chosen], split.targets[chosen]
        if not self.is_text:
            # One scale for all images; the first layer learns the rest.
            inputs = inputs.astype(np.float32) * np.float32(2 / self._largest) - np.float32(1)
        return inputs, targets

    @property
    def _largest(self) -> int:
        return 16 if self.name == "digits" else 255


def load(data: str) -> Dataset:
    kind = formats.kind_of(data)
    if kind == "digits":
        return _digits()
    folder = Path(data)
    made = {"idx": _idx, "npz": _npz, "text": _text}[kind](folder)
    if not len(made.train.inputs) or not len(made.test.inputs):
        raise SpecError(f"--data {data} has no training or no test samples")
    return made


def order(seed: int, epoch: int, count: int, batch_size: int) -> DataArray:
    """Indices of every step's global batch, one row a step; the same for any number of ranks.

    Samples that do not fill a batch are left out, different ones in each epoch.
    """
    steps = count // batch_size
    if steps == 0:
        raise SpecError(f"--batch-size {batch_size} is more than the {count} training samples")
    shuffled: DataArray = np.random.default_rng([seed, epoch]).permutation(count)
    return shuffled[: steps * batch_size].reshape(steps, batch_size)


def share(batch: DataArray, rank: int, ranks: int) -> DataArray:
    own: DataArray = batch.reshape(ranks, -1)[rank]
    return own


def _digits() -> Dataset:
    """1797 images of 8x8 pixels that come with scikit-learn; a fifth are test images."""
    rows = _digits_rows()
    images = rows[:, :-1].reshape(-1, 1, 8, 8).astype(np.uint8)
    targets = rows[:, -1].astype(np.int64)
    # The file repeats 0, 1, 2, … for long: shuffled, so that no class is rare in the test.
    is_test = np.random.default_rng(0).permutation(len(images)) % 5 == 0
    return _of_images("digits", images, targets, is_test)


def _digits_rows() -> DataArray:
    """64 pixels and the class, from the package's file: importing it takes longer than an epoch."""
    found = find_spec("sklearn")
    if found is not None and found.origin is not None:
        path = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
        if path.is_file():
            return np.loadtxt(path, delimiter=",", dtype=np.int64)
    digits = require("sklearn.datasets", "demo", package="scikit-learn").load_digits()
    return np.column_stack([digits.data, digits.target]).astype(np.int64)


def _idx(folder: Path) -> Dataset:
    images = [formats.read_idx(folder, f"{part}-images?idx3") for part in ("train", "t10k")]
    labels = [formats.read_idx(folder, f"{part}-labels?idx1") for part in ("train", "t10k")]
    if any(len(i) != len(t) for i, t in zip(images, labels, strict=True)):
        raise SpecError(f"{folder}: images and labels differ in number")
    is_test = np.arange(len(images[0]) + len(images[1])) >= len(images[0])
    targets = np.concatenate(labels).astype(np.int64)
    return _of_images("MNIST", np.concatenate(images)[:, None], targets, is_test)


def _npz(folder: Path) -> Dataset:
    images, labels, is_test = formats.read_jpeg_npz(folder)
    return _of_images("CIFAR-10 (JPEG copy)", images, labels.astype(np.int64), is_test)


def _of_images(name: str, images: DataArray, targets: DataArray, is_test: DataArray) -> Dataset:
    train, test = (LabelledSamples(images[rows], targets[rows]) for rows in (~is_test, is_test))
    return Dataset(name, train, test, classes=int(targets.max(initial=0)) + 1)


def _text(folder: Path) -> Dataset:
    return of_text(formats.read_text(folder))


def of_text(text: str, name: str = "text") -> Dataset:
    """Blocks of `CONTEXT` characters; the last tenth of the text is the test set."""
    letters = np.frombuffer(text.encode("utf-32-le"), "<u4")
    alphabet, ids = np.unique(letters, return_inverse=True)
    cut = len(ids) * 9 // 10
    train, test = _blocks(ids[:cut]), _blocks(ids[cut:])
    return Dataset(name, train, test, classes=max(1, len(alphabet)))


def _blocks(ids: DataArray) -> LabelledSamples:
    count = max(0, len(ids) - 1) // CONTEXT
    used = ids[: count * CONTEXT + 1].astype(np.int64)
    return LabelledSamples(used[:-1].reshape(count, CONTEXT), used[1:].reshape(count, CONTEXT))
