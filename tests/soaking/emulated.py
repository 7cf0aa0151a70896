"""R5: the NEON table under emulation; nothing is said of its speed.

Its kernels and rows meet the portable table's in programs of their own, and rows of golden frames
meet what this machine has made of them. Then the golden frames and the conformance suite run in a
Debian tree for arm64, with that processor's Python and NumPy.
"""

import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import aarch64
from golden import rows
from mutants import LIBRARY, ROOT
from soaking.programs import BUILD, configure, numbers, passed, run
from soaking.stage import CODEC, CORE, Stage, StageError, Work

TREE = BUILD / "arm64"
PLACE = TREE / "packages"
AS_ROOT = () if os.geteuid() == 0 else ("sudo", "-n")  # debootstrap makes files of other users
MIRROR, RELEASE = "http://deb.debian.org/debian", "bookworm"
NEEDED = ("debootstrap", "proot", "qemu-aarch64-static")
# Wheels of these are for the processor, or for all.
PACKAGES = ("numpy", "ml_dtypes", "pytest", "hypothesis", "pluggy", "iniconfig", "packaging",
            "sortedcontainers", "pygments")  # fmt: skip
GLIBCS = ("2_17", "2_27", "2_28")
PROGRAMS = {"kernels": aarch64.PROGRAMS, "sweep": ("sweep.cpp",), "replay": ("replay.cpp",)}
GUEST = "/opt/fewbits"
# Which table is taken if nobody chooses, and where.
TAKEN = """
import platform
from fewbits.backend import library
print(platform.machine(), library.simd())
"""


def suites() -> list[Path]:
    """Files of tests that run in the tree."""
    conformance = sorted((ROOT / "tests" / "conformance").glob("test_*.py"))
    return [ROOT / "tests" / "golden" / "test_golden.py", *conformance]


def core() -> Path:
    return configure("aarch64", f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'native' / 'aarch64.cmake'}")


def programs(built: Path) -> Path:
    """The folder of the programs that compare tables, linked with the core's own objects."""
    objects = sorted((built / "CMakeFiles" / "fewbits.dir").rglob("*.o"))
    folder = TREE / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    for name, sources in PROGRAMS.items():
        own = [aarch64.compiled(ROOT / "tests" / "native" / file, folder) for file in sources]
        aarch64.link([*own, *objects], folder / name)
    return folder


def compare(work: Work, folder: Path, program: str) -> str:
    """Every kernel at every length several times, rows at all lengths and addresses, or the rows
    of golden frames as this machine has run them."""
    figures = work.figures
    if program == "replay":
        figures["frames"] = rows.record(TREE / "rows.bin")
    words = {"kernels": ("20",), "sweep": ("shapes",), "replay": (TREE / "rows.bin",)}[program]
    told = numbers(run(f"neon-{program}", aarch64.EMULATOR, folder / program, *words))
    if told["tables"] < 2:
        raise StageError("the NEON table was not there: nothing was compared")
    if program == "kernels":
        figures |= {"kernels": int(told["kernels"]), "compared": int(told["compared"])}
        return f"{figures['kernels']} kernels"
    if program == "sweep":
        figures["swept"] = int(told["done"])
        return f"{figures['swept']:,} rows at all lengths and addresses"
    figures["rows"] = int(told["rows"])
    return f"{figures['rows']} rows of golden frames"


def in_tree(log: str, *words: str) -> str:
    """A program of the tree, under emulation; its children are emulated too."""
    places = {"/dev": "/dev", TREE / "checkout": GUEST, PLACE: "/opt/packages"}
    binds = [word for own, guest in places.items() for word in ("-b", f"{own}:{guest}")]
    proot = ("proot", "-q", "qemu-aarch64-static", "-r", str(TREE / "root"), "-0", "-w", GUEST)
    clean = ("/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
             "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "DEBOOTSTRAP_DIR=/debootstrap",
             f"PYTHONPATH={GUEST}/src:/opt/packages", "PYTHONDONTWRITEBYTECODE=1")  # fmt: skip
    own = (*AS_ROOT, "env", "PROOT_NO_SECCOMP=1")  # new kernels refuse proot's filters
    return run(log, *own, *proot, *binds, *clean, *words, env=aarch64.clean_environment())


def make_tree() -> None:
    """Debian for arm64, its second stage under emulation, and the packages that tests need."""
    for folder in (TREE / "checkout", PLACE):
        folder.mkdir(parents=True, exist_ok=True)
    if not (TREE / "whole").exists():
        run("neon-remove", *AS_ROOT, "rm", "-rf", TREE / "root")
        words = ("--arch=arm64", "--foreign", "--variant=minbase", "--include=python3")
        run("neon-debootstrap", *AS_ROOT, "debootstrap", *words, RELEASE, TREE / "root", MIRROR)
        in_tree("neon-second-stage", "/bin/sh", "/debootstrap/debootstrap", "--second-stage")
        (TREE / "whole").touch()
    platforms = [f"--platform=manylinux_{glibc}_aarch64" for glibc in GLIBCS]
    pins = [f"{name}=={version(name)}" for name in PACKAGES]
    shutil.rmtree(PLACE)
    install = (sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary=:all:")
    run("neon-packages", *install, "--python-version=3.11", "--target", PLACE, *platforms, *pins)


def copy_checkout(built: Path) -> None:
    place = TREE / "checkout"
    shutil.rmtree(place, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    shutil.copy2(ROOT / "pyproject.toml", place)
    shutil.copy2(built / LIBRARY, place / "src" / "fewbits" / LIBRARY)


def suite(work: Work, built: Path, path: Path) -> str:
    """A file of tests with that processor's Python; the tree is made when it is first needed."""
    if not work.figures.get("tree"):
        make_tree()
    copy_checkout(built)
    taken = in_tree("neon-taken", "python3", "-c", TAKEN).split()
    if taken != ["aarch64", "neon"]:
        raise StageError(f"the tree took {taken}")
    work.figures["tree"] = 1
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", str(path.relative_to(ROOT)))
    text = in_tree(f"neon-{path.stem}", "python3", *words)
    work.figures["tests"] = work.figures.get("tests", 0) + passed(text)
    return f"{work.figures['tests']:,} tests under qemu-user"


def neon(work: Work) -> None:
    """One part after the other, and what each has told."""
    absent = aarch64.missing() or ", ".join(name for name in NEEDED if not shutil.which(name))
    if absent:
        raise StageError(f"not there: {absent}; Debian has debootstrap, proot, qemu-user-static")
    built = core()
    folder = programs(built)
    work.ready()
    told: dict[str, str] = work.figures.setdefault("told", {})
    while not work.over:
        part = PARTS[work.start % len(PARTS)]
        if isinstance(part, str):
            told[part] = compare(work, folder, part)
        else:
            told["tests"] = suite(work, built, part)
        work.add(1, ", ".join(told.values()), str(part))


PARTS: tuple[str | Path, ...] = (*PROGRAMS, *suites())
STAGES = (
    Stage("neon", "R5", "the NEON table on an emulated aarch64: every kernel, golden frames, "
          "conformance", "parts", len(PARTS),
          (*CORE, *CODEC, "tests/native/*", "tests/conformance/*.py", "tests/golden/*.py"), neon),
)  # fmt: skip
