"""What a kernel may cost on its hot path: whole aligned blocks without rare values."""

from typing import Any

from fewbits.reference.formats import FLOAT32

REGISTERS = 96
SLACK = 1.15
# Instructions a value on the hot path, of the prototypes: sm_80, then sm_90 and newer, then gfx942.
# A relay has a part for each rank, in its first loop; other loops are for what is rare. Of a
# checksum it is instructions a byte, in the loop.
_KNOWN: dict[str, tuple[float, float, float | None]] = {
    "natural_encode": (26.1, 26.3, 31.4),
    "natural_decode": (20.3, 22.6, 30.8),
    "relay": (34.0, 34.0, None),
    "relay in its loop": (19.5, 19.5, None),
    "crc_blocks in its loop": (5.4, 5.4, None),
    "dithering_encode": (76.0, 89.0, 80.0),
}
_PLACES = {"sm_80": 0, "sm_90": 1, "sm_100": 1, "gfx942": 2}


def per_value(row: dict[str, Any]) -> tuple[float, float]:
    """Instructions a value outside of loops, and in the first one."""
    hot = row["hot"]
    values, loops = hot["values_per_thread"], hot["loops"]
    return (hot["instructions"] - sum(loops)) / values, (loops[0] if loops else 0) / values


def over_budget(row: dict[str, Any]) -> list[str]:
    """One line for each limit that the hot path of a kernel breaks."""
    if "hot" not in row:
        return []
    hot, wrong = row["hot"], []
    if hot["spills"]:
        wrong.append(f"{hot['spills']} spills")
    if hot["registers"] > REGISTERS:
        wrong.append(f"{hot['registers']} registers")
    if not applies(row["kernel"]):
        return wrong
    outside, inside = per_value(row)
    name = row["kernel"].split()[0]
    for what, count in ((name, outside), (f"{name} in its loop", inside)):
        limit = _KNOWN[what][_PLACES[row["target"]]] if what in _KNOWN else None
        if limit is not None and count > SLACK * limit:
            wrong.append(f"{count:.1f} instructions a value, {SLACK * limit:.1f} allowed")
    return wrong


def applies(kernel: str) -> bool:
    """Whether the prototypes' figures are of this variant.

    They are of float32, rounded at random, not added; of relays, from natural compression, of ranks
    whose number is a power of two.
    """
    name, *words = kernel.split()
    if set(words) & {"add", "nearest", "mantissa=7", "mantissa=10", "exponent=5"}:
        return False
    return name != "relay" or {"exact", "terms=0", f"to={FLOAT32.code}"} <= set(words)
