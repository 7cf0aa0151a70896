"""Recorded gradients for the lab: which model, on which data, at which steps."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fewbits.errors import SpecError
from fewbits.lab.experiment import Settings
from fewbits.lab.vectors import Values
from fewbits.train import data
from fewbits.train.extras import check_installed

if TYPE_CHECKING:
    from fewbits.lab.recording import Step

STEPS, QUICK_STEPS = (1, 10, 100), (1, 20)
# The folder below `--data` that a model learns from, and what comes with packages otherwise.
SOURCES = {
    "cnn": ("mnist", "digits"),
    "resnet": ("cifar10", "digits"),
    "gpt": ("tinyshakespeare", "source of Python"),
}
_LETTERS = 500_000  # of the text that comes with Python


class Recorded(NamedTuple):
    """One step of one model's training."""

    model: str
    data: str
    step: "Step"

    @property
    def vector(self) -> Values:
        """All gradients in the model's order."""
        return self.step.vector


def recorded(settings: Settings) -> tuple[Recorded, ...]:
    """Of every model, step by step."""
    return _recorded(settings.seed, QUICK_STEPS if settings.quick else STEPS, settings.data)


@lru_cache(maxsize=1)  # several experiments look at the same ones
def _recorded(seed: int, keep: tuple[int, ...], folder: str | None) -> tuple[Recorded, ...]:
    check_installed("torch")
    from fewbits.lab import recording

    found = []
    for model in SOURCES:
        dataset = _dataset(model, folder)
        steps = recording.record(model, dataset, keep, seed)
        found += [Recorded(model, dataset.name, step) for step in steps]
    return tuple(found)


def last_of_each(settings: Settings) -> list[Recorded]:
    """Every model's last recorded step."""
    return list({own.model: own for own in recorded(settings)}.values())


def _dataset(model: str, folder: str | None) -> data.Dataset:
    named, bundled = SOURCES[model]
    if folder is not None:
        if not Path(folder).is_dir():
            raise SpecError(f"--data must be a folder, got {folder!r}")
        if (Path(folder) / named).is_dir():
            found = data.load(str(Path(folder) / named))
            return replace(found, name=named) if found.is_text else found
    if bundled == "digits":
        return data.load("digits")
    from fewbits.lab.recording import bundled_text

    return data.of_text(bundled_text(_LETTERS), bundled)
