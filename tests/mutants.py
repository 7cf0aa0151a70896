"""Planted faults: each row of `mutants.toml` breaks a copy of the tree; its tests must fail.

    python tests/mutants.py [name ...] [--jobs 2] [--resume] [--limit N] [--seconds S] [--list]

A fault that no test notices is a hole in the suite: the exit code is 1. Every selection of tests
first runs on an unbroken copy, since a test that fails anyway kills nothing.

Verdicts are kept in `build/mutants.json`, each with a digest of the row, of the files that it
changes and of its tests. With `--resume` rows whose verdict still stands are not run again.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".toml")
KEPT = ROOT / "build" / "mutants.json"
LIBRARY = "libfewbits.so"
OWN = ROOT / "src" / "fewbits" / LIBRARY
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
        self.configured = False
        if is_current(OWN):
            self.take(OWN)
        else:
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
        if not self.configured:
            ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
            self.command("cmake", "-S", ".", "-B", "build", "-G", "Ninja", ninja)
            self.configured = True
        self.command("ninja", "-C", "build", "fewbits")
        self.take(self.folder / "build" / LIBRARY)

    def take(self, library: Path) -> None:
        """Let the tests load this library."""
        shutil.copy2(library, self.folder / "src" / "fewbits" / LIBRARY)

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
            if self.configured or is_native(mutant):  # the last fault may be in the library
                self.build()
            yield
        finally:
            for file, text in before.items():
                (self.folder / file).write_text(text)


def is_native(mutant: Mutant) -> bool:
    """Whether the library must be built for it."""
    return any(change.file.startswith(("native/", "CMakeLists")) for change in mutant.changes)


def is_current(library: Path) -> bool:
    """Whether the library was built from the sources as they are."""
    sources = [ROOT / "CMakeLists.txt", *(ROOT / "native").rglob("*.*")]
    return library.exists() and all(
        path.stat().st_mtime <= library.stat().st_mtime for path in sources
    )


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


def check_unbroken(tree: Tree, tests: tuple[str, ...]) -> None:
    """The selection passes where nothing is planted."""
    if tree.configured:
        tree.build()  # the last fault may be in the library
    done = tree.pytest(tests)
    if done.returncode:
        raise RuntimeError(f"{' '.join(tests)} fails without a fault:\n{done.stdout[-2000:]}")
    say(f"unbroken  {' '.join(tests)}: {done.stdout.splitlines()[-1]}")


def digest(mutant: Mutant) -> str:
    """Of everything that a verdict depends on, but for the code around the fault."""
    chosen = [ROOT / name.partition("::")[0] for name in mutant.tests if not name.startswith("-")]
    files = {
        path for place in chosen for path in (place.rglob("*.py") if place.is_dir() else [place])
    }
    files |= {ROOT / change.file for change in mutant.changes}
    hasher = hashlib.sha256(repr(mutant).encode())
    for path in sorted(files):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:16]


def kept() -> dict[str, dict[str, str]]:
    """Verdicts of earlier runs, by name."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def keep(mutant: Mutant, verdict: Verdict) -> None:
    KEPT.parent.mkdir(exist_ok=True)
    found = kept() | {mutant.name: asdict(verdict) | {"digest": digest(mutant)}}
    new = KEPT.with_suffix(".new")
    new.write_text(json.dumps(found, indent=1))
    new.replace(KEPT)


def unjudged(mutants: list[Mutant]) -> list[Mutant]:
    """Those without a verdict, or whose files have changed since; survivors are tried again."""
    old = kept()
    return [
        mutant
        for mutant in mutants
        if old.get(mutant.name, {}).get("digest") != digest(mutant)
        or old[mutant.name]["result"] != "killed"
    ]


def run_all(mutants: list[Mutant], jobs: int, seconds: float) -> list[Verdict]:
    """Plants one after the other; what has not begun when the time is over is left out."""
    end, lock = time.monotonic() + seconds, threading.Lock()
    locks, sound = {mutant.tests: threading.Lock() for mutant in mutants}, set[tuple[str, ...]]()
    with tempfile.TemporaryDirectory(prefix="fewbits-mutants-") as place:
        trees: Queue[Tree] = Queue()
        for number in range(jobs):
            trees.put(Tree(Path(place) / str(number)))

        def on_tree(work: Callable[[Tree], Verdict]) -> Verdict:
            tree = trees.get()
            try:
                return work(tree)
            finally:
                trees.put(tree)

        def judged(mutant: Mutant) -> Verdict | None:
            if time.monotonic() > end:
                return None

            def work(tree: Tree) -> Verdict:
                with locks[mutant.tests]:
                    if mutant.tests not in sound:
                        check_unbroken(tree, mutant.tests)
                        sound.add(mutant.tests)
                return judge(tree, mutant)

            verdict = on_tree(work)
            with lock:
                say(
                    f"{verdict.result:9} {verdict.seconds:5.0f} s  {verdict.name}: {verdict.detail}"
                )
                keep(mutant, verdict)
            return verdict

        with ThreadPoolExecutor(jobs) as pool:
            return [verdict for verdict in pool.map(judged, mutants) if verdict]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="plant faults and see that the tests notice")
    parser.add_argument("names", nargs="*", help="mutants to run; all of them without a name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="leave out what was killed before")
    parser.add_argument("--limit", type=int, default=None, help="run at most so many")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin none after that")
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
    every = mutants
    mutants = unjudged(mutants) if chosen.resume else mutants
    # Those of one selection of tests one after the other: its unbroken run is then needed once.
    sizes = Counter(own.tests for own in mutants)
    # Those that need a compiler come last.
    mutants = sorted(mutants, key=lambda own: (is_native(own), -sizes[own.tests], own.tests))
    mutants = mutants[: chosen.limit]
    verdicts = run_all(mutants, chosen.jobs, chosen.seconds) if mutants else []
    bad = [verdict for verdict in verdicts if verdict.result != "killed"]
    judged = len(every) - len(unjudged(every))
    say(f"{len(verdicts) - len(bad)} of {len(verdicts)} planted faults were killed")
    say(f"killed={judged} rows={len(every)}") if chosen.resume else None
    for verdict in bad:
        say(f"{verdict.result.upper()}: {verdict.name}: {verdict.detail}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
