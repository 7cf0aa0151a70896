"""Mutants of a PTX text: one operand or one opcode of one instruction changed, mechanically."""

import random
import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(
    r"^(?P<before>[ \t]+(?:@!?%\w+ )?)(?P<op>[a-z][\w.:]*)(?P<gap>[ \t]+)(?P<rest>[^;\n]*);",
    re.MULTILINE,
)
_SWAPS = {
    "add": "sub", "sub": "add", "and": "or", "or": "and", "xor": "or", "max": "min", "min": "max",
    "shl": "shr", "shr": "shl",
}  # fmt: skip
_COMPARED = {
    "lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq", "lo": "ls",
    "hi": "hs",
}  # fmt: skip
_NUMBER = re.compile(r"(?<![\w%.])-?\d+(?!\w)")
_REGISTER = re.compile(r"%(?:p|rs|r|rd)\d+\b")
# Parameters, copies and permutations, most of whose numbers do not matter; what has no operands.
_LEFT_OUT = ("ld.param", "ret", "bra", "mov", "bar", "prmt", "createpolicy", "griddepcontrol")


class Mutant(NamedTuple):
    """A changed text, and the line that it changes."""

    line: str
    becomes: str
    text: str


def mutants(ptx: str, count: int, seed: int = 0) -> Iterator[Mutant]:
    """So many mutants, spread over all instructions of the text, always the same ones."""
    places = [
        own for own in _LINE.finditer(ptx, ptx.index("{"))
        if not (own["op"] + own["gap"] + own["rest"]).startswith(_LEFT_OUT) and own["rest"]
    ]  # fmt: skip
    chance = random.Random(seed)
    every = max(1, len(places) // max(count, 1))
    start = chance.randrange(every)
    for own in places[start::every][:count]:
        changed = _changed(own, ptx, chance)
        if changed is not None:
            before = own["before"]
            text = f"{ptx[: own.start()]}{before}{changed};{ptx[own.end() :]}"
            line = " ".join(f"{before}{own['op']} {own['rest']}".split())
            yield Mutant(line, " ".join((before + changed).split()), text)


def _changed(own: re.Match[str], ptx: str, chance: random.Random) -> str | None:
    """Another opcode, number or register; which of them is drawn."""
    op, gap, rest = own["op"], own["gap"], own["rest"]
    name, _, tail = op.partition(".")
    ways = []
    if name in _SWAPS and tail != "pred":
        ways.append(f"{_SWAPS[name]}.{_fitting(_SWAPS[name], tail)}{gap}{rest}")
    if name == "setp":
        compared, _, kind = tail.partition(".")
        if compared in _COMPARED:
            ways.append(f"setp.{_COMPARED[compared]}.{kind}{gap}{rest}")
    if name == "selp":
        target, first, second, chosen = (part.strip() for part in rest.split(","))
        ways.append(f"{op}{gap}{target}, {second}, {first}, {chosen}")
    first = rest.find(",") if "[" not in rest[: max(rest.find(","), 0)] else 0
    ways += _other_numbers(op, gap, rest, max(first, 0))
    ways += _other_registers(op, gap, rest, max(first, 0), ptx, own.start(), chance)
    return chance.choice(ways) if ways else None


def _fitting(name: str, kind: str) -> str:
    """The type with which an opcode exists: shifts to the left have no sign."""
    if name == "shl":
        return kind.replace("u", "b").replace("s", "b")
    if name == "shr":
        return kind.replace("b", "u")
    if name in ("sub", "add") and kind.startswith("b"):
        return kind.replace("b", "s")
    return kind


def _other_numbers(op: str, gap: str, rest: str, behind: int) -> list[str]:
    if op.startswith("shfl"):  # by another bit it would reach the same lanes in the end
        return [f"{op}{gap}" + re.sub(r", \d+, 31", ", 0, 31", rest)]
    return [
        f"{op}{gap}{rest[: own.start()]}{int(own[0]) ^ 1}{rest[own.end() :]}"
        for own in _NUMBER.finditer(rest, behind)
        if own[0] != "0" or "[" not in rest  # an offset of memory is tried by others
    ][:1]


def _other_registers(
    op: str, gap: str, rest: str, behind: int, ptx: str, place: int, chance: random.Random
) -> list[str]:
    """A register that was used shortly before, of the same kind, in the place of a source."""
    sources = list(_REGISTER.finditer(rest, behind))
    moves_one = op.startswith(("ld", "st", "atom", "red")) and "matrix" not in op
    if not sources or moves_one:
        return []
    own = chance.choice(sources)
    prefix = own[0].rstrip("0123456789")
    near = _REGISTER.findall(ptx[max(0, place - 1500) : place])
    others = [name for name in near if name.rstrip("0123456789") == prefix and name != own[0]]
    if not others:
        return []
    return [f"{op}{gap}{rest[: own.start()]}{chance.choice(others)}{rest[own.end() :]}"]
