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
        "the fewest bytes of what kept the accuracy of plain training with every model tried",
    ),
}


def expand(worker: object, **others: object) -> Preset | None:
    """The preset of this name, if there is one; it leaves nothing else to choose."""
    preset = PRESETS.get(worker) if isinstance(worker, str) else None
    if preset is not None:
        refuse_others(str(worker), **others)
    return preset


def refuse_others(name: str, **others: object) -> None:
    """`SpecError` if anything is given that `name` chooses itself."""
    given = [other for other, value in others.items() if value is not None]
    if given:
        raise SpecError(
            f"{name!r} chooses {' and '.join(given)} itself: leave it out, or name an operator"
        )
