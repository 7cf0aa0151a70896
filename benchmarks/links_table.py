"""The tables of docs/when-not.md, from the results of `fewbits bench link` and the race.

`python benchmarks/links_table.py` prints them. `fewbits lab` shows the same ones.
"""

import json
from pathlib import Path
from typing import Any

from fewbits.lab.recorded import links, race
from fewbits.lab.tables import markdown

RESULTS = Path(__file__).parent / "results"
WITH_RATES_OF_PLAIN = {"fp16-hook", "bfloat16"}  # casts, which change next to nothing


def read(name: str) -> Any:
    """A file of results."""
    return json.loads((RESULTS / name).read_text())


def settings() -> list[dict[str, Any]]:
    """All links, slowest first."""
    return links.settings(read("links.json"))


def crossings() -> str:
    """Where the better choice changes."""
    plain, coded = links.crossings(read("links.json"))
    return (
        "**Where the better choice changes**, with time on the wire in inverse proportion to the\n"
        "rate between measured links: plain DDP catches up with `natural` at "
        f"{plain[0]:.1f} Gbit/s on\ntwo ranks and {plain[1]:.1f} Gbit/s on four, and `natural` "
        f"with `natural:coder=rans` at {coded[0]:.2f}\nand {coded[1]:.2f} Gbit/s."
    )


def tables() -> list[str]:
    """All of them, in the page's order."""
    found = read("links.json")
    return [
        markdown(links.steps(found)),
        markdown(links.gains(found)),
        crossings(),
        markdown(links.plans(found)),
        markdown(race.race(read("time-to-accuracy.json"))),
        markdown(race.transport(read("transport.json"))),
    ]


if __name__ == "__main__":
    print("\n\n".join(tables()))
