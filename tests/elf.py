"""How the loader is told to load a library: the parts of an ELF file (64 bits) that say so."""

import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
_LOAD, _DYNAMIC, _STACK, _RELRO = 1, 2, 0x6474E551, 0x6474E552
_EXECUTABLE = 1
_NEEDED, _STRINGS, _RPATH, _NOW, _RUNPATH, _FLAGS, _FLAGS_1 = 1, 5, 15, 24, 29, 30, 0x6FFFFFFB
_FLAG_NOW, _FLAG_1_NOW = 8, 1


@dataclass(frozen=True)
class Loaded:
    """How a library is loaded."""

    relro: bool  # its tables become read-only after relocation
    bind_now: bool  # and all of them, because no call is bound later
    executable_stack: bool
    writable_code: bool
    search_paths: int  # RPATH and RUNPATH
    needed: frozenset[str]

    @property
    def faults(self) -> list[str]:
        checks = {
            "no RELRO": not self.relro,
            "bound lazily": not self.bind_now,
            "executable stack": self.executable_stack,
            "segment that is writable and executable": self.writable_code,
            "RPATH": self.search_paths > 0,
        }
        return [text for text, found in checks.items() if found]


def read(path: Path) -> Loaded:
    """The facts of the file `path`."""
    data = path.read_bytes()
    if not data.startswith(MAGIC):
        raise ValueError(f"{path} is no ELF file of 64 bits, little endian")
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    # type, flags, offset, address, (physical), size in the file, (in memory), (alignment)
    segments = [struct.unpack_from("<IIQQQQQQ", data, start + size * i) for i in range(count)]
    dynamic = [entry for s in segments if s[0] == _DYNAMIC for entry in _entries(data, s[2], s[5])]
    flags = {tag: value for tag, value in dynamic if tag in (_FLAGS, _FLAGS_1)}
    now = flags.get(_FLAGS, 0) & _FLAG_NOW or flags.get(_FLAGS_1, 0) & _FLAG_1_NOW
    stacks = [s[1] for s in segments if s[0] == _STACK]
    return Loaded(
        relro=any(s[0] == _RELRO for s in segments),
        bind_now=bool(now) or any(tag == _NOW for tag, _ in dynamic),
        executable_stack=not stacks or any(flag & _EXECUTABLE for flag in stacks),
        writable_code=any(s[0] == _LOAD and s[1] & 3 == 3 for s in segments),
        search_paths=sum(tag in (_RPATH, _RUNPATH) for tag, _ in dynamic),
        needed=frozenset(_names(data, segments, dynamic)),
    )


def _entries(data: bytes, offset: int, size: int) -> list[tuple[int, int]]:
    found = list(struct.iter_unpack("<QQ", data[offset : offset + size]))
    return [(tag, value) for tag, value in found if tag]


def _names(
    data: bytes, segments: list[tuple[int, ...]], dynamic: list[tuple[int, int]]
) -> list[str]:
    """The libraries that this one asks for."""
    (address,) = (value for tag, value in dynamic if tag == _STRINGS)
    (strings,) = (
        address - s[3] + s[2] for s in segments if s[0] == _LOAD and s[3] <= address < s[3] + s[5]
    )
    starts = [strings + value for tag, value in dynamic if tag == _NEEDED]
    return [data[start : data.index(b"\0", start)].decode() for start in starts]
