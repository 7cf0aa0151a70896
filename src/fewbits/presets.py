"""Names for an operator with its feedback that were measured to train well together."""

from dataclasses import dataclass

from fewbits.errors import SpecError

AUTO = "auto"
"""Not a preset: tries several operators and goes on with the fastest."""

EVERYDAY = ("bfloat16", "natural", "natural:coder=rans")
"""What `auto` tries beside plain all-reduce and `fewbits plan` advises, the least lossy first.

Whole trainings were measured with these.
"""


@dataclass(frozen=True, slots=True)
class Preset:
    """The operator of both directions and the memory that it needs."""

    operator: str
    feedback: str
    summary: str


PRESETS = {
    "tiny": Preset(
        "top-k:fraction=0.01|natural",
        "ef14",
        "the fewest bytes at which every model tried kept the accuracy of plain training",
    )
}


def expand(worker: object, **others: object) -> Preset | None:
    """The preset of this name, or None."""
    preset = PRESETS.get(worker) if isinstance(worker, str) else None
    if preset is not None:
        refuse_others(str(worker), **others)
    return preset


def refuse_others(name: str, **others: object) -> None:
    """Raise `SpecError` if an option is given that the preset `name` chooses itself."""
    given = [other for other, value in others.items() if value is not None]
    if given:
        raise SpecError(
            f"{name!r} chooses {' and '.join(given)} itself: leave it out, or name an operator"
        )
