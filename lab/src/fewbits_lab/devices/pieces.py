"""What is compiled and emulated: a piece for each target and operator."""

from collections.abc import Collection

from fewbits.verify import cases

PTX_TARGETS = "sm_80", "sm_90", "sm_100"
TARGET_NAMES = (*PTX_TARGETS, "gfx942")
FORMAT_NAMES = "float32", "bfloat16", "float16"
MESSAGES = "messages"  # checksums, seals and verdicts, where operators are named


def is_emulated(spec: str) -> bool:
    """Selection counts in a way in which threads part; the machine runs the other kernels."""
    return "|" not in spec


def known_pieces(part: str) -> dict[str, tuple[str, str]]:
    """Target and operator of every piece of `compiled` or `emulated`, by its name."""
    targets = TARGET_NAMES if part == "compiled" else PTX_TARGETS
    return {
        f"{target} {spec}": (target, spec)
        for target in targets
        for spec in (*cases.VERIFIED_SPECS, MESSAGES)
        if part == "compiled" or is_emulated(spec)
    }


def missing_pieces(part: str, target: str, found: Collection[str]) -> list[str]:
    """The operators that have no piece; none if a piece has the target's name alone."""
    if target in found:
        return []
    known = known_pieces(part).items()
    return [spec for name, (where, spec) in known if where == target and name not in found]
