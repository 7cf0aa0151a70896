"""Recorded gradients for the lab: which model, on which data, at which steps."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fewbits.errors import SpecError
from fewbits.train import data
from fewbits.train.extras import check_installed
from fewbits_lab.experiment import StudySettings
from fewbits_lab.vectors import VectorValues

if TYPE_CHECKING:
    from fewbits_lab.recordings.training import RecordedStep

_STEPS, QUICK_STEPS = (1, 10, 100), (1, 20)
# The folder below `--data` that a model learns from, and what comes with packages otherwise.
SOURCES = {
    "cnn": ("mnist", "digits"),
    "resnet": ("cifar10", "digits"),
    "gpt": ("tinyshakespeare", "source of Python"),
}
_LETTERS = 500_000  # of the text that comes with Python


class RecordedModel(NamedTuple):
    """One step of one model's training."""

    model: str
    data: str
    step: "RecordedStep"

    @property
    def vector(self) -> VectorValues:
        """All gradients in the model's order."""
        return self.step.vector


def recorded(settings: StudySettings) -> tuple[RecordedModel, ...]:
    """The recorded gradients of every model, step by step."""
    return _recorded(settings.seed, QUICK_STEPS if settings.quick else _STEPS, settings.data)


@lru_cache(maxsize=1)  # several experiments look at the same ones
def _recorded(seed: int, keep: tuple[int, ...], folder: str | None) -> tuple[RecordedModel, ...]:
    check_installed("torch")
    from fewbits_lab.recordings import training as recording

    found = []
    for model in SOURCES:
        dataset = _dataset(model, folder)
        steps = recording.record(model, dataset, keep, seed)
        found += [RecordedModel(model, dataset.name, step) for step in steps]
    return tuple(found)


def last_of_each(settings: StudySettings) -> list[RecordedModel]:
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
    from fewbits_lab.recordings.training import bundled_text

    return data.of_text(bundled_text(_LETTERS), bundled)
