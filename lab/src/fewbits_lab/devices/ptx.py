"""PTX as the compiler writes it, taken apart: instructions, labels, registers and parameters."""

import re
from dataclasses import dataclass
from typing import NamedTuple

_DECLARED = re.compile(r"\.reg \.(?P<type>\w+)\s+(?P<prefix>%[a-z]+)<\d+>")
_ALONE = re.compile(r"\.reg \.(?P<type>\w+)\s+(?P<names>%?\w+(?:\s*,\s*%?\w+)*)\s*$")
_ENTRY = re.compile(r"\.visible \.entry (?P<name>\w+)\((?P<params>[^)]*)\)")
_PARAM = re.compile(r"\.param\s+\.(?P<type>\w+)[^,]*?(?P<name>\w+)\s*(?:,|$)")
_LABEL = re.compile(r"(?P<name>[$\w]+):")
_ONE = re.compile(
    r"(?:@(?P<negated>!?)(?P<guard>%\w+)\s+)?(?P<op>[\w.:]+)\s*(?P<rest>.*)", re.DOTALL
)
_OPERANDS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")
_THREADS = re.compile(r"\.(?:reqntid|maxntid) (\d+)")
_BITS = {"pred": 1, "f32": 32, "f64": 64, "f16": 16}


class PtxError(Exception):
    """The program does what no kernel may do, or what this machine does not know."""


class Instruction(NamedTuple):
    """One line: its guard, opcode and operands as text."""

    guard: str | None
    negated: bool
    op: str
    operands: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return self.op.split(".")

    def __str__(self) -> str:
        guard = f"@{'!' * self.negated}{self.guard} " if self.guard else ""
        return f"{guard}{self.op} {', '.join(self.operands)}"


@dataclass(frozen=True)
class PtxProgram:
    """The only entry of a PTX text."""

    name: str
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    widths: dict[str, int]  # bits of registers, by prefix or whole name
    params: dict[str, tuple[int, int]]  # place and bits, by name
    threads: int

    def width(self, register: str) -> int:
        """Bits of a register; 1 for predicates."""
        found = self.widths.get(register) or self.widths.get(register.rstrip("0123456789"))
        if found is None:
            raise PtxError(f"no register {register}")
        return found


def parse(text: str) -> PtxProgram:
    """The program in a PTX text, which has one entry."""
    entries = list(_ENTRY.finditer(text))
    if len(entries) != 1 or ".func" in text:
        raise PtxError(f"{len(entries)} entries, or functions that are called")
    entry = entries[0]
    params = {
        found["name"]: (place, _bits(found["type"]))
        for place, found in enumerate(_PARAM.finditer(entry["params"]))
    }
    threads = _THREADS.search(text)
    instructions, labels, widths = _body(text[text.index("{", entry.end()) :])
    if threads is None:
        raise PtxError("the number of threads is not stated")
    return PtxProgram(entry["name"], instructions, labels, widths, params, int(threads[1]))


def _body(text: str) -> tuple[tuple[Instruction, ...], dict[str, int], dict[str, int]]:
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    widths: dict[str, int] = {}
    for line in re.sub(r"//[^\n]*", "", text).splitlines():
        own = line.strip()
        if own.startswith((".section", ".file")):
            break
        label = _LABEL.fullmatch(own)
        if label:
            labels[label["name"]] = len(found)
            continue
        for part in filter(
            None,
            (
                one.strip(" \t{}" if ";" not in one and "{" not in one[1:] else " \t")
                for one in own.split(";")
            ),
        ):
            _line(part, found, widths)
    return tuple(found), labels, widths


def _line(part: str, found: list[Instruction], widths: dict[str, int]) -> None:
    part = part.lstrip("{").strip() if part.startswith("{") else part
    if not part or part == "}":
        return
    if part.startswith("."):
        for own in _DECLARED.finditer(part):
            widths[own["prefix"]] = _bits(own["type"])
        alone = _ALONE.fullmatch(part)
        for name in alone["names"].split(",") if alone else ():
            widths[name.strip()] = _bits(alone["type"]) if alone else 0
        return
    one = _ONE.fullmatch(part)
    if one is None:
        raise PtxError(f"cannot read {part!r}")
    operands = tuple(own.strip() for own in _OPERANDS.findall(one["rest"]))
    found.append(Instruction(one["guard"], bool(one["negated"]), one["op"], operands))


def _bits(name: str) -> int:
    return _BITS[name] if name in _BITS else int(name[1:])
