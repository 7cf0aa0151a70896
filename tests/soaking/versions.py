"""S2: the wheel beside old and new NumPy and several Pythons, without torch.

Pythons are those of the path or of pyenv; the newest, if there is none, is unpacked from Debian.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import aarch64
import debian
from mutants import ROOT
from soaking.programs import BUILD, last_line, passed, run
from soaking.stage import CODEC, CORE, Stage, StageError, Work

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
NUMPYS = {"oldest": "numpy==1.26.*", "newest": "numpy"}
SUITES = (
    "tests/golden/test_golden.py",
    "tests/conformance/test_frames.py",
    "tests/conformance/test_buffers.py",
    "tests/unit/wire",
    "tests/unit/test_codec.py",
)
TESTS = ("pytest>=8", "hypothesis>=6.100", "ml_dtypes>=0.4")
NEWEST = "forky"  # Debian's release whose python3 is the last one above
ASKED = """
import fewbits, numpy, platform
print(platform.python_version(), numpy.__version__, fewbits.__file__)
"""
SHIMS = Path.home() / ".pyenv" / "versions"


def interpreter(version: str) -> str | None:
    """The program of this Python, from the path or from pyenv."""
    places = [shutil.which(f"python{version}")]
    places += sorted(map(str, SHIMS.glob(f"{version}.*/bin/python{version}")))
    for program in filter(None, places):
        asked = subprocess.run(
            [program, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if asked.stdout.strip() == version:
            return program
    return None


def rounds() -> list[tuple[str, str]]:
    """Every Python with the newest NumPy, and the oldest Python with the oldest too."""
    return [(PYTHONS[0], "oldest"), *((python, "newest") for python in PYTHONS)]


def versions(work: Work) -> None:
    """Suites of the core in an environment of its own for each pair."""
    wheels = BUILD / "versions" / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    build = ("wheel", "--no-deps", "--no-build-isolation", "-w", wheels, ROOT)
    run("versions-build", sys.executable, "-m", "pip", *build)
    (wheel,) = wheels.glob("*.whl")
    work.ready()
    said = list(work.figures.get("said", []))
    while not work.over:
        python, which = rounds()[work.start % len(rounds())]
        said = [line for line in said if not line.startswith(f"Python {python}, {which}")]
        said.append(f"Python {python}, {which} NumPy: {tried(wheel, python, which)}")
        work.figures["said"] = said
        work.add(1, "; ".join(said), said[-1])


def environment(python: str, which: str, wheel: Path, log: str) -> tuple[tuple[str, ...], Path]:
    """A Python that has the wheel, NumPy and the packages of tests; where they lie beside it."""
    place = BUILD / "versions" / f"{python}-{which}"
    shutil.rmtree(place, ignore_errors=True)
    packages = (wheel, NUMPYS[which], *TESTS)
    program = interpreter(python)
    if program is not None:
        run(f"{log}-venv", program, "-m", "venv", place)
        own = (str(place / "bin" / "python"),)
        run(f"{log}-install", *own, "-m", "pip", "install", "--only-binary=:all:", *packages)
        return own, place
    if absent := debian.missing():
        raise StageError(f"no Python {python}, and {absent} to unpack Debian's")
    own = debian.python(
        debian.unpacked(BUILD / "debian" / f"{NEWEST}-amd64", NEWEST, "amd64"), "amd64"
    )
    debian.install(own, place, *packages)
    return own, place


def tried(wheel: Path, python: str, which: str) -> str:
    """The suites' figures."""
    log = f"versions-{python}-{which}"
    own, place = environment(python, which, wheel, log)
    given = aarch64.clean_environment(PYTHONPATH=str(place))
    found = last_line(run(f"{log}-asked", *own, "-c", ASKED, env=given)).split()
    if found[0].rpartition(".")[0] != python:
        raise StageError(f"asked for Python {python}, got {found[0]}")
    if not Path(found[2]).is_relative_to(place):
        raise StageError(f"not the wheel that was installed: {found[2]}")
    options = ("-q", "-p", "no:cacheprovider", "-x", "--override-ini=pythonpath=tests")
    text = run(log, *own, "-m", "pytest", *options, *SUITES, env=given)
    return f"NumPy {found[1]}, {passed(text):,} tests"


STAGES = (
    Stage("versions", "S2", "the core beside the oldest and newest NumPy and several Pythons",
          "pairs", len(rounds()),
          (*CORE, *CODEC, "tests/conformance/*.py", "tests/golden/*.py"), versions),
)  # fmt: skip
