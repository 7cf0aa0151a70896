"""Whole suites: what is marked soak, the suite with sanitizers, planted faults, sockets, wheel."""

import os
import re
import sys
import tempfile
from pathlib import Path

from mutants import LIBRARY as CORE_FILE
from mutants import ROOT, read_table
from soaking.programs import (
    LOGS,
    configure,
    numbers,
    passed,
    pytest_words,
    run,
    sanitized_environment,
    summary,
)
from soaking.stage import CORE, LIBRARY, Stage, StageError, Work

TESTS = ROOT / "tests"
COVERS = (*CORE, *LIBRARY)
STATISTICS = ("statistical/test_soak.py", "unit/test_rng.py", "unit/feedback/test_rule.py",
              "unit/collectives/test_means.py")  # fmt: skip
HOSTILE = ("unit/flower", "integration/test_flower.py")
# These have stages of their own.
ELSEWHERE = ("thousand_steps", "two_hundred_steps")
MARK = re.compile(r"pytest\.mark\.soak")

# What a fresh environment with NumPy alone must be able to do.
ROUND_TRIP = """
import sys, numpy as np, fewbits
x = np.linspace(-3, 3, 1001, dtype=np.float32)
y = fewbits.decompress(fewbits.compress(x, "natural", seed=1))
assert np.abs(y - x).max() <= np.abs(x).max() and np.abs(y - x).max() > 0
assert np.array_equal(fewbits.decompress(fewbits.compress(x, "identity")), x)
assert "torch" not in sys.modules and sys.prefix in fewbits.__file__
print(fewbits.__file__)
"""


def marked_files() -> list[Path]:
    """Files that have tests marked soak, quick folders first."""
    found = [path for path in TESTS.rglob("test_*.py") if MARK.search(path.read_text())]
    order = ("unit", "statistical", "lab", "distributed", "integration")
    inside = [path for path in found if path.relative_to(TESTS).parts[0] in order]
    own = {TESTS / name for name in STATISTICS}
    return sorted(
        set(inside) - own, key=lambda path: (order.index(path.relative_to(TESTS).parts[0]), path)
    )


def sanitized_files() -> list[Path]:
    """Those whose processes keep the environment, long ones last."""
    order = ("golden", "fuzz", "unit", "device", "conformance")
    return [path for folder in order for path in sorted((TESTS / folder).rglob("test_*.py"))]


def files(
    work: Work, name: str, found: list[Path], *options: str, env: dict[str, str] | None = None
) -> None:
    """One file after the other; the run goes on where the last one has ended."""
    while not work.over:
        path = found[work.start % len(found)]
        text = run(f"{name}-{path.stem}", *pytest_words(*options, path), env=env)
        # Some files have nothing that this machine could run.
        count = 0 if re.match(r"\d+ skipped", summary(text)) else passed(text)
        work.figures["tests"] = work.figures.get("tests", 0) + count
        work.add(1, f"{work.figures['tests']:,} tests", f"{path.name}: {summary(text)}")


def marked(work: Work) -> None:
    files(work, "marked", marked_files(), "-m", "soak", "-k",
          " and ".join(f"not {name}" for name in ELSEWHERE))  # fmt: skip


def statistics(work: Work) -> None:
    files(work, "statistics", [TESTS / name for name in STATISTICS], "--soak")


def hostile(work: Work) -> None:
    found = [TESTS / name for name in HOSTILE]
    text = run("hostile", *pytest_words("--soak", *found))
    work.add(1, f"{passed(text):,} tests", summary(text))


def sanitize(work: Work) -> None:
    """Child processes of the folders left out replace the environment or need a command."""
    environment = sanitized_environment()
    work.ready()
    files(work, "sanitize", sanitized_files(), "-n", "2", env=environment)


def mutants(work: Work) -> None:
    """As many rows as are asked for and have no verdict yet."""
    while not work.over:
        words = ("--resume", "--limit", str(min(work.left, 40)), "--seconds",
                 f"{work.seconds_left:.0f}")  # fmt: skip
        before = work.start
        text = run("mutants", sys.executable, TESTS / "mutants.py", *words)
        told = numbers(text)
        found = int(told["killed"]) - before
        work.add(found, f"{int(told['killed'])} of {int(told['rows'])} planted faults were killed")
        if found <= 0:
            return


def threads(work: Work) -> None:
    """The native core with the thread sanitizer; nothing of it starts threads, callers do."""
    flags = "-fsanitize=thread -g -O1"
    options = (f"-DCMAKE_CXX_FLAGS={flags}", "-DCMAKE_BUILD_TYPE=None")
    core = configure("threads", "-DCMAKE_CXX_COMPILER=g++", *options)
    program = LOGS / "threads"
    places = (f"-I{ROOT / 'native'}", f"-Wl,-rpath,{core}")
    run("threads-compile", "g++", "-std=c++20", *flags.split(), *places,
        TESTS / "native" / "threads.cpp", core / CORE_FILE, "-o", program)  # fmt: skip
    while not work.over:
        share = min(work.left, 500)
        environment = os.environ | {"TSAN_OPTIONS": "halt_on_error=1"}
        run("threads", "setarch", "-R", program, str(share), env=environment)
        work.add(share, "four threads, no race")


def wheel(work: Work) -> None:
    """Its tag, and a round trip where nothing but NumPy is installed."""
    with tempfile.TemporaryDirectory(prefix="fewbits-wheel-") as name:
        place = Path(name)
        build = ("wheel", "--no-deps", "--no-build-isolation", "-w", place, ROOT)
        run("wheel-build", sys.executable, "-m", "pip", *build)
        (built,) = place.glob("*.whl")
        if not re.fullmatch(r"fewbits-[^-]+-py3-none-(?!any)\w+\.whl", built.name):
            raise StageError(f"{built.name} is not tagged py3-none-<platform>")
        run("wheel-venv", sys.executable, "-m", "venv", place / "venv")
        python = place / "venv" / "bin" / "python"
        constraints = (
            ("-c", ROOT / "constraints.txt") if (ROOT / "constraints.txt").exists() else ()
        )
        run("wheel-install", python, "-m", "pip", "install", *constraints, built, "numpy")
        run("wheel", python, "-c", ROUND_TRIP, cwd=place)
        work.add(1, f"{built.name}, {built.stat().st_size:,} bytes, round trip with NumPy alone")


STAGES = (
    Stage("statistics", "R18–R20", "random streams, means and variances, conservation by feedback",
          "files", len(STATISTICS), COVERS, statistics),
    Stage("hostile", "R22", "hostile clients of a federation, also over sockets", "passes", 1,
          COVERS, hostile),
    Stage("sanitize", "R1, R2", "the suite with a sanitized core", "files",
          len(sanitized_files()), COVERS, sanitize),
    Stage("mutants", "R2", "planted faults that the suite must notice", "faults",
          len(read_table()), (*COVERS, "tests/mutants.toml"), mutants),
    Stage("threads", "F15", "threads in the native core with the thread sanitizer", "rounds",
          10_000, CORE, threads, least=100),
    Stage("marked", "R6, R15–R17", "all other tests that are marked soak", "files",
          len(marked_files()), COVERS, marked),
    Stage("wheel", "S2, S6", "the wheel where nothing but NumPy is installed", "passes", 1, COVERS,
          wheel),
)  # fmt: skip
