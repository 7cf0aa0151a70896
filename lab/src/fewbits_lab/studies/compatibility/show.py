"""Shows `compatibility`: one row for each training loop."""

from fewbits_lab.record import RecordDocument
from fewbits_lab.tables import ShownTable

_TITLES = ["training loop", "works?", "what to write, or what `attach` says", "test"]
_SIGNS = {"yes": "**yes**", "refused": "refused", "n/a": "n/a"}


def matrix(document: RecordDocument) -> ShownTable:
    """All rows, in the order of the tests' table."""
    return ShownTable(
        _TITLES,
        [[own["name"], _SIGNS[own["verdict"]], _said(own), _test(own)] for own in document["rows"]],
        title="Compatibility",
        wordy=True,
    )


def _said(own: dict[str, str]) -> str:
    if own["verdict"] == "n/a":
        return own["reason"]
    if own["verdict"] == "refused":
        return f"“{own['message']}” ({own['how']})"
    return own["how"]


def _test(own: dict[str, str]) -> str:
    if "test" not in own:
        return "–"
    file, _, name = own["test"].partition("::")
    return f"`{file.rpartition('/')[2]}`: `{name}`"
