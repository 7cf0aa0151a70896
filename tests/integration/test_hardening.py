"""The native library as the loader meets it, read from its file."""

import shutil
import subprocess
from pathlib import Path

import pytest

import elf
from fewbits.backend import library

LIBRARY = Path(library._core._name)
SYSTEM = {
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}

pytestmark = pytest.mark.skipif(
    not LIBRARY.read_bytes().startswith(elf.MAGIC), reason="not an ELF file of 64 bits"
)


def test_the_native_library_is_hardened() -> None:
    assert elf.read(LIBRARY).faults == []


def test_the_native_library_has_canaries_and_checked_calls() -> None:
    symbols = LIBRARY.read_bytes()
    assert b"\0__stack_chk_fail\0" in symbols
    assert b"_chk\0" in symbols.replace(b"__stack_chk_fail", b"")


def test_the_native_library_needs_only_the_system() -> None:
    """As its bill of materials says."""
    needed = elf.read(LIBRARY).needed
    assert "libc.so.6" in needed
    assert needed <= SYSTEM


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
@pytest.mark.parametrize(
    ("flags", "faults"),
    [
        (["-Wl,-z,relro,-z,now,-z,noexecstack"], []),
        (["-Wl,-z,norelro,-z,now,-z,noexecstack"], ["no RELRO"]),
        (["-Wl,-z,relro,-z,lazy,-z,noexecstack"], ["bound lazily"]),
        (["-Wl,-z,relro,-z,now,-z,execstack"], ["executable stack"]),
        (["-Wl,-z,relro,-z,now,-z,noexecstack,-N"], ["segment that is writable and executable"]),
        (["-Wl,-z,relro,-z,now,-z,noexecstack,-rpath,/tmp"], ["RPATH"]),
    ],
)
def test_a_soft_library_is_seen(tmp_path: Path, flags: list[str], faults: list[str]) -> None:
    source, built = tmp_path / "soft.c", tmp_path / "soft.so"
    source.write_text('int puts(const char*);\nint soft(void) { return puts(""); }\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", "-o", built, source, *flags], check=True)
    found = elf.read(built).faults
    assert set(faults) <= set(found)
    assert bool(found) == bool(faults)
