"""All studies, found by scanning their folders, in the order of the page.

A study's `show.py` has an `Experiment` for what is computed and a `Recorded` for each view of what
only a program with root, data or hours makes. Nothing else lists them.
"""

import pkgutil
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from fewbits.errors import SpecError
from fewbits_lab import studies
from fewbits_lab.experiment import Experiment
from fewbits_lab.record import Recorded
from fewbits_lab.sections import SECTIONS

_PLACES = {name: place for place, name in enumerate(
    name for section in SECTIONS for name in section.items
)}  # fmt: skip


def _shown() -> Iterator[Any]:
    """All public values in the studies' `show.py`."""
    for study in pkgutil.iter_modules(studies.__path__):
        yield from vars(import_module(f"fewbits_lab.studies.{study.name}.show")).values()


def _place(own: Experiment[Any] | Recorded) -> tuple[int, str]:
    """Its place on the page; a study without a section comes last."""
    return _PLACES.get(own.name, len(_PLACES)), own.name


EXPERIMENTS: tuple[Experiment[Any], ...] = tuple(
    sorted((own for own in _shown() if isinstance(own, Experiment)), key=_place)
)
RECORDED: tuple[Recorded, ...] = tuple(
    sorted((own for own in _shown() if isinstance(own, Recorded)), key=_place)
)


def find(name: str) -> Experiment[Any]:
    """The experiment of this name."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    for record in RECORDED:
        if record.name == name:
            raise SpecError(f"{name} is not run by this command but by `{record.command}`")
    names = [experiment.name for experiment in EXPERIMENTS]
    close = get_close_matches(name, names, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names)}"
    raise SpecError(f"unknown study {name!r}: {hint}")
