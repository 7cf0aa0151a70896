"""Names for an operator with its feedback that were measured to train well together."""

from dataclasses import dataclass

from fewbits.errors import SpecError


@dataclass(frozen=True, slots=True)
class Preset:
    """Both directions' operator and the memory that it needs."""

    operator: str
    feedback: str
    summary: str


PRESETS = {
    "tiny": Preset(
        "top-k:fraction=0.01|natural",
        "ef14",
        "the fewest bytes at the accuracy of plain training",
    ),
}


def expand(worker: object, **others: object) -> Preset | None:
    """The preset of this name, if there is one; it leaves nothing else to choose."""
    preset = PRESETS.get(worker) if isinstance(worker, str) else None
    given = [name for name, value in others.items() if value is not None]
    if preset is not None and given:
        raise SpecError(
            f"{worker!r} chooses {' and '.join(given)} itself: leave out {', '.join(given)}, or "
            f"name the operator, {preset.operator!r} with feedback {preset.feedback!r}"
        )
    return preset
