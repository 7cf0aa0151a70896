"""Makes the text of README and docs about `flower`."""

from statistics import fmean
from typing import Any

from fewbits_lab.prose import code, paragraph, table
from fewbits_lab.results import results

_PLAIN = "none"


def rows() -> list[dict[str, Any]]:
    """The rows of every node in every round."""
    found: list[dict[str, Any]] = results("flower")["rows"]
    return found


def mean(operator: str, way: str, *, first: bool) -> float:
    """Bytes of a node in the first round, or in the later ones."""
    return fmean(
        row[way] for row in rows() if row["operator"] == operator and (row["round"] == 1) == first
    )


def fewer(operator: str, way: str) -> float:
    """How many times fewer in the later rounds, at least: the least plain over the most of ours."""
    later = [row for row in rows() if row["round"] > 1]
    least = min(row[way] for row in later if row["operator"] == _PLAIN)
    return float(least / max(row[way] for row in later if row["operator"] == operator))


def bytes_table() -> str:
    """TCP bytes of a node in a round."""
    last = max(row["round"] for row in rows())
    cells = []
    for operator in dict.fromkeys(row["operator"] for row in rows()):
        plain = operator == _PLAIN
        sizes = [
            mean(operator, way, first=first) for first in (True, False) for way in ("up", "down")
        ]
        times = ["", ""] if plain else [f"{fewer(operator, way):.2f}" for way in ("up", "down")]
        name = operator if plain else code(operator)
        cells.append([name, *(f"{size:,.0f}" for size in sizes), *times])
    titles = (
        f"operator|up, round 1|down, round 1|up, rounds 2 to {last}|down, rounds 2 to {last}"
        "|times fewer up, at least|down"
    )
    return table(titles, cells)


def overhead() -> str:
    """The overhead of protocol and polling."""
    weights = 4 * rows()[0]["values"]
    extra = max(mean(_PLAIN, way, first=False) for way in ("up", "down")) - weights
    return paragraph(
        f"`fewbits-lab run flower --out DIR` repeats it. Protocol and polling are about {extra / 1000:.0f} kB of a",
        "round. If the weights are not much more than that, compression hardly shows.",
    )
