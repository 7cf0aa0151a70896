"""Planted faults: each row of `mutants.toml` breaks a copy of the tree; its tests must fail.

    python tests/mutants.py [name ...] [--jobs 2] [--list]

A fault that no test notices is a hole in the suite: the exit code is 1. First every selection of
tests runs on an unbroken copy, since a test that fails anyway kills nothing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".toml")
LIBRARY = "libfewbits.so"
TIMEOUT = 3600  # seconds; far above what a busy machine needs
COPIED = (
    "CMakeLists.txt",
    "Makefile",
    "pyproject.toml",
    "README.md",
    "lab",
    "native",
    "src",
    "tests",
    "docs",
)
IGNORED = shutil.ignore_patterns("__pycache__", "*.so", "_build", ".hypothesis")

# An editable install finds the package before PYTHONPATH does; a copy must come before both.
SITE = '''"""Lets PYTHONPATH come before an editable install."""

import sys

sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__module__.startswith("_editable_")]
'''


@dataclass(frozen=True)
class Change:
    """A text that occurs once in a file, and what stands there instead."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True)
class Mutant:
    """One fault, why it matters, and the tests that must notice it."""

    name: str
    why: str
    tests: tuple[str, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Verdict:
    """What became of a fault: "killed", "survived", "hung", or "broken" if it was not planted."""

    name: str
    result: str
    seconds: float
    detail: str


def read_table() -> list[Mutant]:
    table = tomllib.loads(TABLE.read_text())
    return [
        Mutant(
            row["name"],
            row["why"],
            tuple(row.get("tests", table["tests"])),
            tuple(Change(**change) for change in row["change"]),
        )
        for row in table["mutant"]
    ]


def isolated(source: Path, **more: str) -> dict[str, str]:
    """The environment in which `import fewbits` finds the package in the folder `source`."""
    (source / "sitecustomize.py").write_text(SITE)
    path = os.pathsep.join(map(str, (source, source.parent / "lab" / "src")))
    # Compiled files are told apart by size and second, which two mutants may share.
    return os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | more


class Tree:
    """A copy of the project that faults are planted in, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=IGNORED)
            elif (ROOT / name).exists():
                shutil.copy2(ROOT / name, folder / name)
        self.environment = isolated(folder / "src")
        self.command(
            "cmake",
            "-S",
            ".",
            "-B",
            "build",
            "-G",
            "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
        )
        self.build()
        where = self.command(sys.executable, "-c", "import fewbits; print(fewbits.__file__)").stdout
        if not Path(where.strip()).is_relative_to(folder):
            raise RuntimeError(f"the tests would run {where.strip()}, not the copy in {folder}")

    def command(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        program = tool(words[0])
        done = subprocess.run(
            [program, *words[1:]], cwd=self.folder, env=self.environment, timeout=TIMEOUT,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"{words[0]} failed: {(done.stdout + done.stderr)[-2000:]}")
        return done

    def build(self) -> None:
        self.command("ninja", "-C", "build", "fewbits")
        shutil.copy2(self.folder / "build" / LIBRARY, self.folder / "src" / "fewbits" / LIBRARY)

    def pytest(self, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        options = ("-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider")
        return self.command(sys.executable, "-m", "pytest", *options, *tests, check=False)

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        before = {change.file: (self.folder / change.file).read_text() for change in mutant.changes}
        try:
            for change in mutant.changes:
                path = self.folder / change.file
                text = path.read_text()
                if text.count(change.find) != 1:
                    raise ValueError(
                        f"{change.find!r} occurs {text.count(change.find)} times in {change.file}"
                    )
                path.write_text(text.replace(change.find, change.replace))
            self.build()
            yield
        finally:
            for file, text in before.items():
                (self.folder / file).write_text(text)


def tool(name: str) -> str:
    """A program beside this Python, or on the path."""
    own = Path(sys.executable).parent / name
    return str(own) if own.exists() else shutil.which(name) or name


def judge(tree: Tree, mutant: Mutant) -> Verdict:
    start = time.perf_counter()
    try:
        with tree.planted(mutant):
            done = tree.pytest(mutant.tests)
    except subprocess.TimeoutExpired:
        return Verdict(mutant.name, "hung", time.perf_counter() - start, "no verdict in time")
    except (ValueError, RuntimeError) as error:
        text = " ".join(str(error).split())[-300:]
        return Verdict(mutant.name, "broken", time.perf_counter() - start, text)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    detail = (lines or done.stdout.splitlines()[-1:] or [""])[0][:150]
    result = {0: "survived", 1: "killed"}.get(done.returncode, "broken")
    return Verdict(mutant.name, result, time.perf_counter() - start, detail)


def check_unbroken(tree: Tree, mutants: list[Mutant]) -> None:
    """Every selection passes where nothing is planted."""
    for tests in sorted({mutant.tests for mutant in mutants}):
        done = tree.pytest(tests)
        if done.returncode:
            raise RuntimeError(f"{' '.join(tests)} fails without a fault:\n{done.stdout[-2000:]}")
        say(f"unbroken  {' '.join(tests)}: {done.stdout.splitlines()[-1]}")


def run_all(mutants: list[Mutant], jobs: int) -> list[Verdict]:
    with tempfile.TemporaryDirectory(prefix="fewbits-mutants-") as place:
        trees: Queue[Tree] = Queue()
        for number in range(jobs):
            trees.put(Tree(Path(place) / str(number)))
        tree = trees.get()
        check_unbroken(tree, mutants)
        trees.put(tree)

        def work(mutant: Mutant) -> Verdict:
            tree = trees.get()
            try:
                verdict = judge(tree, mutant)
            finally:
                trees.put(tree)
            say(f"{verdict.result:9} {verdict.seconds:5.0f} s  {verdict.name}: {verdict.detail}")
            return verdict

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(work, mutants))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="plant faults and see that the tests notice")
    parser.add_argument("names", nargs="*", help="mutants to run; all of them without a name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="show the mutants and stop")
    chosen = parser.parse_args()
    mutants = read_table()
    unknown = set(chosen.names) - {mutant.name for mutant in mutants}
    if unknown:
        parser.error(f"no mutant named {', '.join(sorted(unknown))}")
    mutants = [m for m in mutants if not chosen.names or m.name in chosen.names]
    if chosen.list:
        for mutant in mutants:
            say(f"{mutant.name:32} {mutant.why}")
        return 0
    verdicts = run_all(mutants, chosen.jobs)
    bad = [verdict for verdict in verdicts if verdict.result != "killed"]
    say(f"{len(verdicts) - len(bad)} of {len(verdicts)} planted faults were killed")
    for verdict in bad:
        say(f"{verdict.result.upper()}: {verdict.name}: {verdict.detail}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
