"""Shows `device`: kernels as they are compiled, and mutants of them."""

from typing import Any

from fewbits.reference.formats import FLOAT32
from fewbits_lab.devices.budget import per_value
from fewbits_lab.devices.pieces import TARGET_NAMES
from fewbits_lab.record import RecordDocument
from fewbits_lab.tables import ShownTable

SHOWN_TARGETS = TARGET_NAMES
# The hot paths that training with `natural` takes, the words of their variants, and one of others.
HOT = {
    "encode": ("natural_encode", "mantissa=23", "nearest"),
    "decode": ("natural_decode", "mantissa=23", "add"),
    "relay of n ranks": ("relay", f"exact terms=0 to={FLOAT32.code}", "nearest"),
    "dithering, encode": ("dithering_encode", "mantissa=23", "nothing"),
    "CRC-32C, a byte": ("crc_blocks", "", "nothing"),
}


def rows(document: RecordDocument) -> list[dict[str, Any]]:
    """All kernels of all targets; several operators may start the same one."""
    found = {
        (row["target"], row["kernel"]): row
        for own in document["compiled"].values()
        for row in own["rows"]
    }
    return list(found.values())


def hot_row(document: RecordDocument, name: str, target: str) -> dict[str, Any] | None:
    """The kernel of a hot path for a target."""
    kernel, needed, never = HOT[name]
    for row in rows(document):
        words = row["kernel"].split()
        fits = words[0] == kernel and set(needed.split()) <= set(words) and never not in words
        if row["target"] == target and "hot" in row and fits:
            return row
    return None


def hot_paths(document: RecordDocument) -> ShownTable:
    """Registers and instructions a value of the hot paths."""
    lines = []
    for name in HOT:
        cells = [name]
        for target in SHOWN_TARGETS:
            row = hot_row(document, name, target)
            cells.append("—" if row is None else _cell(row))
        lines.append(cells)
    return ShownTable(["hot path", *SHOWN_TARGETS], lines, title="Compiled kernels")


def _cell(row: dict[str, Any]) -> str:
    outside, inside = per_value(row)
    kernel = row["kernel"].split()[0]
    if kernel == "crc_blocks":
        count = f"{inside:.1f}" if inside else "—"
    elif inside and kernel == "relay":
        count = f"{outside:.1f} + {inside:.1f} n"
    else:
        count = f"{outside + inside:.1f}"
    return f"{row['hot']['registers']} registers, {count}"


def mutants(document: RecordDocument) -> ShownTable:
    """Mutants of each kernel, and how many are seen."""
    lines = [
        [name, str(own["made"]), str(len(own["equivalent"])), str(own["seen"])]
        for name, own in document["mutants"].items()
    ]
    return ShownTable(
        ["kernel", "mutants", "equivalent", "seen"], lines, title="Changed instructions"
    )
