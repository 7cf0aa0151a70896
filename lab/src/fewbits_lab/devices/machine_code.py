"""What the assembler made of a kernel: registers, spills, instructions, and those inside loops."""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import triton

_TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
_LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<op>[A-Z][A-Z0-9_.]*)(?P<rest>.*)")
_LABEL = re.compile(r"\s*(\.L_x_\d+|\.?LBB\d+_\d+):")
_JUMP = re.compile(r"`\((\.L_x_\d+)\)|\b(\.?LBB\d+_\d+)\b")
_AMD = re.compile(r"\s+(?P<op>(?:v|s|global|flat|ds|buffer)_\w+)(?P<rest>.*)")
# They order or fill the stream of instructions, and work on no value.
_IDLE = ("NOP", "BRA", "s_nop", "s_branch", "s_cbranch", "s_waitcnt", "s_endpgm")


class MachineCode(NamedTuple):
    """Figures of a compiled kernel. Spills are instructions that move registers to memory."""

    registers: int
    spills: int
    shared: int
    instructions: int
    loops: tuple[int, ...]  # instructions of each, in their order


def measured(compiled: Any) -> MachineCode:
    """Of a kernel that was compiled for one of the targets."""
    return _amd(compiled) if "amdgcn" in compiled.asm else _nvidia(compiled)


def assembled(ptx: str, target: str) -> bytes:
    """The binary that NVIDIA's assembler makes of a PTX text, without fused products."""
    with tempfile.TemporaryDirectory() as folder:
        text, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        text.write_text(ptx, encoding="utf-8")
        _tool("ptxas", "--fmad=false", f"--gpu-name={target}", str(text), "-o", str(binary))
        return binary.read_bytes()


def listing(cubin: bytes) -> list[str]:
    """The machine instructions of a binary."""
    text = _looked_at(cubin, "nvdisasm", "-c")
    return [found[0] for found in _LINE.finditer(text)]


def _looked_at(cubin: bytes, tool: str, *words: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return _tool(tool, *words, file.name)


def _nvidia(compiled: Any) -> MachineCode:
    text = _looked_at(compiled.asm["cubin"], "nvdisasm", "-c")
    usage = _looked_at(compiled.asm["cubin"], "cuobjdump", "-res-usage")
    ops = [found["op"] for found in _LINE.finditer(text)]
    spills = sum(op.startswith(("LDL", "STL")) for op in ops)
    stack = _number(r"STACK:(\d+)", usage)
    return MachineCode(
        _number(r"REG:(\d+)", usage), spills or int(stack > 0), compiled.metadata.shared,
        *_counted(text, _LINE),
    )  # fmt: skip


def _amd(compiled: Any) -> MachineCode:
    text = compiled.asm["amdgcn"]
    spills = _number(r"\.vgpr_spill_count:\s+(\d+)", text)
    scalar = _number(r"\.sgpr_spill_count:\s+(\d+)", text)
    return MachineCode(
        _number(r"\.vgpr_count:\s+(\d+)", text), spills + scalar, compiled.metadata.shared,
        *_counted(text, _AMD),
    )  # fmt: skip


def _counted(text: str, shape: re.Pattern[str]) -> tuple[int, tuple[int, ...]]:
    """All instructions, and those between a label and a later jump back to it.

    Comments behind AMD's labels say where a loop begins: blocks that are laid out of order jump
    back too.
    """
    places: dict[str, int] = {}
    loops: dict[int, int] = {}
    count, begins = 0, ""
    for line in text.splitlines():
        label = _LABEL.match(line)
        begins = label[1].lstrip(".") if label else begins
        if begins and (shape is _LINE or "Loop" in line):
            places[begins] = count
        found = shape.search(line) if shape is _LINE else shape.match(line)
        if found is None:
            continue
        begins = ""
        if not found["op"].startswith(_IDLE):
            count += 1
        jump = _JUMP.search(found["rest"])
        name = (jump[1] or jump[2]).lstrip(".") if jump else None
        if name in places and count - places[name] > 2:
            loops[places[name]] = count
    outer, end = [], 0
    for start in sorted(loops):
        if start >= end:  # not inside of another one
            end = loops[start]
            outer.append(end - start)
    return count, tuple(outer)


def _tool(name: str, *words: str) -> str:
    return subprocess.run(
        [_TOOLS / name, *words], capture_output=True, text=True, check=True
    ).stdout


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0
