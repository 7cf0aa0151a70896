"""How a round is exchanged in `streaming`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FragmentArrangement:
    """The options of `attach`."""

    fragments: int = 1
    delay: int = 0
    blend: float = 0.0


WHOLE_ROUNDS = "at once"
ARRANGEMENTS = {
    WHOLE_ROUNDS: FragmentArrangement(),
    "4 fragments": FragmentArrangement(4),
    "4 fragments, 2 steps late": FragmentArrangement(4, 2, 0.5),
}
