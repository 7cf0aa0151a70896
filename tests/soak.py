"""Hours of patience, run by `make soak`: sanitizers, fuzzing, statistics, planted faults, wheel.

    python tests/soak.py [stage ...] [--executions 10000000] [--mutations 200000] [--list]

Every stage runs even if one before it failed; the exit code says whether all passed. Output of a
stage's programs is kept in `build/soak/<stage>.log` (`<stage>-<part>.log` where there are several).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mutants import LIBRARY, ROOT, isolated, say, tool

BUILD = ROOT / "build"
LOGS = BUILD / "soak"
FUZZ = ROOT / "tests" / "fuzz"
TARGETS = sorted(path.stem for path in (FUZZ / "native").glob("*.cpp"))
CLANG = next((name for name in ("clang++", "clang++-14") if shutil.which(name)), "clang++")
SANITIZED = BUILD / "sanitize" / "package"

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


class StageError(Exception):
    """A stage that did not hold; the text says where to look."""


@dataclass(frozen=True)
class Options:
    """How much of everything."""

    executions: int
    mutations: int


def run(log: str, *words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a program at low priority; its output, which also goes to a file."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{log}.log"
    with path.open("w") as out:
        done = subprocess.run(
            ["nice", "-n", "5", *map(str, words)],
            cwd=cwd, env=env, stdout=out, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    text = path.read_text(errors="replace")
    if done.returncode:
        tail = "\n".join(text.splitlines()[-15:])
        raise StageError(f"exit code {done.returncode}, see {path.relative_to(ROOT)}:\n{tail}")
    return text


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def configure(folder: str, *options: str) -> None:
    """Configure and build into `build/<folder>`."""
    ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
    place = BUILD / folder
    # A cache made with another compiler would drop the options that are given here.
    (place / "CMakeCache.txt").unlink(missing_ok=True)
    run(f"{folder}-cmake", tool("cmake"), "-S", ROOT, "-B", place, "-G", "Ninja", ninja, *options)
    run(f"{folder}-build", tool("ninja"), "-C", place)


def runtime(name: str) -> str:
    """The path of a library that GCC links against."""
    words = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def sanitized_environment() -> dict[str, str]:
    """Builds the core with both sanitizers into a copy of the package that comes first on the path.

    Python's own allocator is off, so that the end of every buffer is the end of an allocation. The
    C++ runtime is loaded early because the address sanitizer looks for its `throw` at the start.
    """
    configure("sanitize", "-DFEWBITS_SANITIZE=ON", "-DCMAKE_CXX_COMPILER=g++")
    package = SANITIZED / "fewbits"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "src" / "fewbits", package, ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    shutil.copy2(BUILD / "sanitize" / LIBRARY, package / LIBRARY)
    environment = isolated(
        SANITIZED,
        LD_PRELOAD=f"{runtime('libasan.so')} {runtime('libstdc++.so')}",
        ASAN_OPTIONS="detect_leaks=0,abort_on_error=1,max_allocation_size_mb=4096",
        UBSAN_OPTIONS="print_stacktrace=1",
        PYTHONMALLOC="malloc",
    )
    imports = "import fewbits, fewbits.backend.library as native"
    check = f"{imports}; print(fewbits.__file__); print(native._core._name)"
    loaded = run("sanitize-check", sys.executable, "-c", check, env=environment).split()
    symbols = (package / LIBRARY).read_bytes()
    if (
        not all(Path(path).is_relative_to(SANITIZED) for path in loaded)
        or b"__asan_" not in symbols
    ):
        raise StageError(f"not the sanitized package: {loaded}")
    return environment


def sanitize(options: Options) -> str:
    """The test suite against a core built with the address and undefined-behaviour sanitizers."""
    environment = sanitized_environment()
    # Child processes of these folders replace the environment or need an installed command.
    elsewhere = ("integration", "meta", "distributed", "statistical")
    ignored = [f"--ignore={ROOT / 'tests' / name}" for name in elsewhere]
    words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *ignored)
    return last_line(run("sanitize", *words, env=environment))


def fuzz_python(options: Options) -> str:
    """Mutated frames through `decompress` with the sanitized core."""
    environment = sanitized_environment()
    halves = (options.mutations // 2, options.mutations - options.mutations // 2)

    def half(number: int) -> str:
        seed = str(int(time.time()) + 10_000 * number)
        words = (FUZZ / "test_fuzz.py", "--mutations", str(halves[number]), "--seed", seed)
        return run(f"fuzz-python-{number}", sys.executable, *words, env=environment)

    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(half, range(2)))
    rates = [re.findall(r"mutations, ([\d,]+)/s", text)[-1] for text in texts]
    return f"{options.mutations:,} mutations, 0 findings, {' and '.join(rates)} a second"


def seeds(target: str) -> list[Path]:
    """Where the fuzzer starts: its earlier finds, the corpus, and golden frames for the parser."""
    found = BUILD / "fuzz" / "found" / target
    found.mkdir(parents=True, exist_ok=True)
    folders = [found, FUZZ / "corpus" / target]
    if target == "frame":
        for path in sorted((ROOT / "tests" / "golden").rglob("*.bin")):
            if path.stat().st_size <= 4096:
                shutil.copy2(path, found / f"golden-{path.parent.name}-{path.stem}")
    return [folder for folder in folders if folder.is_dir()]


def fuzz_target(target: str, executions: int) -> str:
    """One libFuzzer target for that many inputs."""
    findings = BUILD / "fuzz" / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    limits = (f"-runs={executions}", "-max_len=384", "-timeout=10", "-print_final_stats=1")
    place = f"-artifact_prefix={findings}/{target}-"
    run(f"fuzz-native-{target}", BUILD / "fuzz" / f"fuzz_{target}", *limits, place, *seeds(target))
    seconds = time.perf_counter() - start
    say(f"  {target:10} {executions:,} executions, {executions / seconds:,.0f} a second")
    return f"{target} {executions / seconds:,.0f}/s"


def fuzz_native(options: Options) -> str:
    """Every native reader under libFuzzer with both sanitizers, two at a time."""
    switches = ("-DFEWBITS_SANITIZE=ON", "-DFEWBITS_FUZZ=ON")
    configure("fuzz", f"-DCMAKE_CXX_COMPILER={CLANG}", *switches)
    with ThreadPoolExecutor(2) as pool:
        futures = {name: pool.submit(fuzz_target, name, options.executions) for name in TARGETS}
    failed = {name: error for name, future in futures.items() if (error := future.exception())}
    if failed:
        raise StageError("\n".join(f"{name}: {error}" for name, error in failed.items()))
    rates = ", ".join(future.result() for future in futures.values())
    return f"{options.executions:,} executions each, 0 findings: {rates}"


def statistics(options: Options) -> str:
    """The tests that are marked as longer than the gate allows."""
    environment = os.environ | {"HYPOTHESIS_PROFILE": "nightly"}
    words = (sys.executable, "-m", "pytest", "-q", "-m", "soak", "--durations=10")
    return last_line(run("statistics", *words, env=environment))


def mutants(options: Options) -> str:
    """Planted faults that the suite must notice."""
    text = run("mutants", sys.executable, ROOT / "tests" / "mutants.py")
    return last_line(text)


def wheel(options: Options) -> str:
    """The wheel: its tag, and a round trip where nothing but NumPy is installed."""
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
        return f"{built.name}, {built.stat().st_size:,} bytes, round trip with NumPy alone"


STAGES: dict[str, Callable[[Options], str]] = {
    "sanitize": sanitize,
    "fuzz-python": fuzz_python,
    "fuzz-native": fuzz_native,
    "statistics": statistics,
    "mutants": mutants,
    "wheel": wheel,
}


def run_stage(name: str, options: Options) -> tuple[bool, float, str]:
    """Whether the stage passed, its seconds, and one line on it."""
    say(f"== {name}: {STAGES[name].__doc__}")
    start = time.perf_counter()
    try:
        passed, text = True, STAGES[name](options)
    except (StageError, OSError, subprocess.SubprocessError) as error:
        passed, text = False, str(error)
    seconds = time.perf_counter() - start
    say(f"   {'passed' if passed else 'FAILED'} in {seconds:.0f} s: {text}")
    return passed, seconds, text.splitlines()[0] if text else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="what `make soak` runs")
    parser.add_argument("stages", nargs="*", help=f"of {', '.join(STAGES)}; all without a name")
    parser.add_argument("--executions", type=int, default=10_000_000, help="of each fuzz target")
    parser.add_argument("--mutations", type=int, default=200_000, help="through decompress")
    parser.add_argument("--list", action="store_true", help="show the stages and stop")
    chosen = parser.parse_args()
    unknown = set(chosen.stages) - set(STAGES)
    if unknown:
        parser.error(f"no stage named {', '.join(sorted(unknown))}")
    if chosen.list:
        for name, stage in STAGES.items():
            say(f"{name:12} {stage.__doc__}")
        return 0
    options = Options(chosen.executions, chosen.mutations)
    results = {name: run_stage(name, options) for name in chosen.stages or STAGES}
    say(f"\n{'stage':12} {'result':7} {'seconds':>8}")
    for name, (passed, seconds, text) in results.items():
        say(f"{name:12} {'passed' if passed else 'FAILED':7} {seconds:8.0f}  {text}")
    return 0 if all(passed for passed, _, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
