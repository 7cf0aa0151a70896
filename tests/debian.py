"""Debian's Python for another processor, or of a newer release, unpacked beside the system's own.

Nothing in such a tree is configured: it is there to import packages and to run tests. Its Python
can start itself again if it is for this machine's processor, and no other program of the tree.
Making one needs debootstrap, and no root where user namespaces are allowed.
"""

import os
import shlex
import shutil
import tempfile
from pathlib import Path

import pip as pip_package

import aarch64

MIRROR = "http://deb.debian.org/debian"
SCRIPT = "/usr/share/debootstrap/scripts/sid"  # an old debootstrap does not know new names
AS_ROOT = () if os.geteuid() == 0 else ("unshare", "--map-root-user")
LOADER = "ld-linux-x86-64.so.2"


def missing() -> str:
    """The command that is not there, in words; nothing if all are."""
    found = [name for name in ("debootstrap", "dpkg-deb") if shutil.which(name) is None]
    return f"no {' and no '.join(found)}" * bool(found)


def unpacked(folder: Path, release: str, processor: str) -> Path:
    """The tree of a release with its Python; it is made when it is first needed."""
    if not (folder / "whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        words = ("--download-only", f"--arch={processor}", "--variant=minbase", "--include=python3")
        with tempfile.TemporaryDirectory(prefix="fewbits-debian-") as place:
            aarch64.call(*AS_ROOT, "debootstrap", *words, release, place, MIRROR, SCRIPT)
            for package in sorted(Path(place).rglob("*.deb")):
                aarch64.call("dpkg-deb", "--extract", package, folder)
        (folder / "whole").touch()
    return folder


def python(tree: Path, processor: str) -> tuple[str, ...]:
    """The words that run the tree's Python with the tree's own libraries."""
    program = str((tree / "usr" / "bin" / "python3").resolve())
    if processor == "arm64":
        return (aarch64.EMULATOR, "-L", str(tree), program)
    names = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")
    places = os.pathsep.join(str(tree / name) for name in names)
    (loader, *_) = tree.rglob(LOADER)
    # A script, so that tests can start `sys.executable`; beside it Python finds its library.
    script = tree / "usr" / "bin" / "python-of-this-tree"
    line = " ".join(map(shlex.quote, (str(loader), "--library-path", places)))
    script.write_text(f'#!/bin/sh\nexec {line} --argv0 "$0" {shlex.quote(program)} "$@"\n')
    script.chmod(0o755)
    return (str(script),)


def install(program: tuple[str, ...], place: Path, *packages: str | Path) -> None:
    """Let that Python's own pip choose wheels by their tags, and unpack them into a new folder."""
    pip = ("install", "--quiet", "--only-binary=:all:", "--root-user-action=ignore")
    aarch64.call(*program, Path(pip_package.__file__).parent, *pip, "--target", place, *packages)
