"""Shows `reliability`: one row for each stage of `make soak`."""

import re
from typing import Any

from fewbits_lab.record import RecordDocument
from fewbits_lab.tables import ShownTable

_TITLES = ["promise", "test", "figure: size reached of the full one, and what was seen", "commit"]


def stages(document: RecordDocument) -> ShownTable:
    """All stages in the order of their promises."""
    rows = sorted(document["stages"].items(), key=lambda item: _order(item[1]["promises"]))
    return ShownTable(_TITLES, [_row(name, own) for name, own in rows], title="Reliability")


def _order(promises: str) -> tuple[int, str]:
    first = re.search(r"\d+", promises)
    return (int(first[0]) if first else 99), promises


def _row(name: str, own: dict[str, Any]) -> list[str]:
    share = 100 * own["done"] / own["full"]
    size = f"{own['done']:,} of {own['full']:,} {own['unit']} ({min(share, 100):.3g} %)"
    failed = f", **{own['failures']} failures**" if own["failures"] else ", 0 failures"
    seen = f"; {own['summary']}" if own["summary"] else ""
    test = f"{own['what']} (`soak.py {name}`)"
    return [own["promises"], test, size + failed + seen, f"{own['commit']}, {own['date']}"]
