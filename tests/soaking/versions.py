"""S2: the wheel beside old and new NumPy and every Python of this machine, without torch."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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


def tried(wheel: Path, python: str, which: str) -> str:
    """The suites' figures, or why there are none."""
    program = interpreter(python)
    if program is None:
        return "not on this machine"
    place = BUILD / "versions" / f"{python}-{which}"
    log = f"versions-{python}-{which}"
    shutil.rmtree(place, ignore_errors=True)
    run(f"{log}-venv", program, "-m", "venv", place)
    own = place / "bin" / "python"
    run(
        f"{log}-install",
        own,
        "-m",
        "pip",
        "install",
        "--only-binary=:all:",
        wheel,
        NUMPYS[which],
        *TESTS,
    )
    asked = "import numpy, platform; print(platform.python_version(), numpy.__version__)"
    found = last_line(run(f"{log}-asked", own, "-c", asked)).split()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    options = ("-q", "-p", "no:cacheprovider", "-x", "--override-ini=pythonpath=tests")
    text = run(log, own, "-m", "pytest", *options, *SUITES, env=environment)
    if found[0].rpartition(".")[0] != python:
        raise StageError(f"asked for Python {python}, got {found[0]}")
    return f"NumPy {found[1]}, {passed(text):,} tests"


STAGES = (
    Stage("versions", "S2", "the core beside the oldest and newest NumPy and several Pythons",
          "pairs", len(rounds()),
          (*CORE, *CODEC, "tests/conformance/*.py", "tests/golden/*.py"), versions),
)  # fmt: skip
