"""Threads side by side: their registers, and how operands are read."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fewbits_lab.devices.floats import GARBAGE
from fewbits_lab.devices.memory import GlobalMemory, Lanes, SharedMemory
from fewbits_lab.devices.ptx import Instruction, PtxError, PtxProgram
from fewbits_lab.devices.types import dtype

_ADDRESS = re.compile(r"\[\s*(?P<base>[%$\w]+)\s*(?:\+\s*(?P<more>-?\d+))?\s*\]")
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)U?")
Step = Callable[["BlockGroup"], None]
OperandSource = Callable[["BlockGroup"], Lanes]


@dataclass
class BlockGroup:
    """Blocks that are at the same instruction."""

    program: PtxProgram
    blocks: Lanes
    arguments: list[int]
    memory: GlobalMemory
    shared: SharedMemory
    registers: dict[str, Lanes]
    at: int = 0
    taken: int = 0

    @classmethod
    def begin(
        cls, program: PtxProgram, blocks: Lanes, arguments: list[int], memory: GlobalMemory,
        shared: int,
    ) -> "BlockGroup":  # fmt: skip
        own = cls(program, blocks, arguments, memory, SharedMemory(len(blocks), shared), {})
        threads = program.threads
        lane = np.arange(len(blocks) * threads, dtype=np.uint32)
        own.registers |= {"%tid.x": lane % np.uint32(threads), "block": lane // np.uint32(threads)}
        for place, axis in enumerate("xyz"):
            own.registers[f"%ctaid.{axis}"] = np.repeat(blocks[:, place], threads)
        own.registers["%laneid"] = own.registers["%tid.x"] % np.uint32(32)
        own.registers["%warpid"] = own.registers["%tid.x"] // np.uint32(32)
        return own

    @property
    def count(self) -> int:
        return len(self.blocks)

    @property
    def size(self) -> int:
        return len(self.blocks) * self.program.threads

    def part(self, chosen: Lanes) -> "BlockGroup":
        """Some of the blocks, as a group of their own."""
        other = replace(self, registers=dict(self.registers))
        other.keep(chosen)
        return other

    def keep(self, chosen: Lanes) -> None:
        lanes = np.repeat(chosen, self.program.threads)
        self.blocks, self.shared = self.blocks[chosen], self.shared.part(chosen)
        self.registers = {name: own[lanes] for name, own in self.registers.items()}
        block = np.arange(self.count, dtype=np.uint32)
        self.registers["block"] = np.repeat(block, self.program.threads)

    def mask(self, own: Instruction) -> Lanes:
        """The lanes on which an instruction works."""
        if own.guard is None:
            return np.ones(self.size, np.bool_)
        found = self.read(own.guard)
        return ~found if own.negated else found

    def read(self, register: str) -> Lanes:
        found = self.registers.get(register)
        if found is None:
            raise PtxError(f"{register} was never written")
        return found

    def write(self, register: str, values: Lanes, mask: Lanes) -> None:
        """Put values into a register, widened or cut to its width."""
        width = self.program.width(register)
        if width == 1:
            values = values.astype(np.bool_)
        else:
            bits = values if values.dtype == np.bool_ else values.view(f"u{values.dtype.itemsize}")
            bits = bits.astype(f"i{bits.dtype.itemsize}") if values.dtype.kind == "i" else bits
            values = bits.astype(f"i{width // 8}" if bits.dtype.kind == "i" else f"u{width // 8}")
            values = values.view(f"u{width // 8}")
        if not mask.all():
            old = self.registers.get(register)
            if old is None:  # what a guard leaves unwritten
                old = np.full(self.size, GARBAGE, np.uint64).astype(values.dtype)
            values = np.where(mask, values, old)
        self.registers[register] = values


def source(program: PtxProgram, text: str, kind: str) -> OperandSource:
    """How an operand is read as values of a type."""
    own = dtype(kind)
    constant = _constant(text, own)
    if constant is not None:
        known = constant
        return lambda group: np.broadcast_to(known, group.size)
    if kind == "pred" or not text.startswith(("%r", "%f", "%p")):
        return lambda group: _fitted(group.read(text), own)
    if program.width(text) < 8 * own.itemsize:
        raise PtxError(f"{text} is narrower than {kind}")
    return lambda group: _fitted(group.read(text), own)


def _fitted(values: Lanes, own: np.dtype[np.generic]) -> Lanes:
    if own == np.bool_:
        return values
    return values.astype(f"u{own.itemsize}").view(own)


def _constant(text: str, own: np.dtype[np.generic]) -> Lanes | None:
    if text == "global_smem":
        return np.zeros(1, own)
    if text.startswith(("0f", "0d")):
        return np.array([int(f"0x{text[2:]}", 0)], f"u{(len(text) - 2) // 2}").view(own)
    if _NUMBER.fullmatch(text):
        value = int(text.rstrip("U"), 0)
        if own == np.bool_:
            return np.array([bool(value)])
        return np.array([value & ((1 << 8 * own.itemsize) - 1)], f"u{own.itemsize}").view(own)
    return None


def address(program: PtxProgram, text: str) -> OperandSource:
    """How the address of an operand in brackets is found."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise PtxError(f"no address: {text}")
    more = np.uint64(int(found["more"] or 0) & 0xFFFFFFFFFFFFFFFF)
    if found["base"] == "global_smem":
        return lambda group: np.full(group.size, more)
    wide = program.width(found["base"]) == 64
    base = source(program, found["base"], "u64" if wide else "u32")
    return lambda group: base(group).astype(np.uint64) + more


def several(text: str) -> list[str]:
    """The operands of a vector in braces, or the only one."""
    return [own.strip() for own in text.strip("{} ").split(",")]
