"""Programs that stages start: at low priority, with a log, and with a word now and then."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from mutants import LIBRARY, ROOT, isolated, say, tool
from soaking.stage import StageError, Work

BUILD = ROOT / "build"
LOGS = BUILD / "soak"
SANITIZED = BUILD / "sanitize" / "package"
CLANG = next((name for name in ("clang++", "clang++-14") if shutil.which(name)), "clang++")
OFTEN = 15.0  # seconds between two words on a program that runs


def run(
    log: str,
    *words: str | Path,
    cwd: Path = ROOT,
    env: dict[str, str] | None = None,
    seconds: float | None = None,
) -> str:
    """A program's output, which also goes to a file; it is ended early after `seconds`."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path, start = LOGS / f"{log}.log", time.perf_counter()
    with path.open("w") as out:
        program = subprocess.Popen(
            ["nice", "-n", "5", *map(str, words)],
            cwd=cwd, env=env, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            code = _wait(program, path, log, start, seconds)
        finally:  # a soak that is interrupted leaves nothing behind
            if program.poll() is None:
                program.terminate()
                program.wait()
    text = path.read_text(errors="replace")
    if code:
        tail = "\n".join(text.splitlines()[-15:])
        raise StageError(f"exit code {code}, see {path.relative_to(ROOT)}:\n{tail}")
    return text


def _wait(
    program: subprocess.Popen[bytes], path: Path, log: str, start: float, seconds: float | None
) -> int:
    while True:
        try:
            return program.wait(OFTEN)
        except subprocess.TimeoutExpired:
            passed = time.perf_counter() - start
            say(f"   {log}: {passed:.0f} s, {last_line(path.read_text(errors='replace'))[:100]}")
            if seconds is not None and passed > seconds:
                program.terminate()
                program.wait()
                return 0


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def summary(text: str) -> str:
    """Pytest's last word; libraries may say more when the interpreter ends."""
    found = re.findall(r"^.*\b(?:passed|skipped)\b.* in [\d.]+s\b.*$", text, re.MULTILINE)
    return found[-1] if found else last_line(text)


def passed(text: str) -> int:
    """The tests that pytest says have passed."""
    found = re.search(r"(\d+) passed", summary(text))
    if found is None:
        raise StageError(f"no test has passed: {summary(text)}")
    return int(found[1])


def configure(folder: str, *options: str) -> Path:
    """Configure and build into `build/<folder>`."""
    ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
    place = BUILD / folder
    # A cache made with another compiler would drop the options that are given here.
    (place / "CMakeCache.txt").unlink(missing_ok=True)
    run(f"{folder}-cmake", tool("cmake"), "-S", ROOT, "-B", place, "-G", "Ninja", ninja, *options)
    run(f"{folder}-build", tool("ninja"), "-C", place)
    return place


def driver(name: str, *options: str) -> Path:
    """A program of `tests/native`, linked with a release core of its own."""
    core = configure("driven", "-DCMAKE_CXX_COMPILER=g++") / LIBRARY
    program = LOGS / name
    source = ROOT / "tests" / "native" / f"{name}.cpp"
    words = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", *options)
    places = (f"-I{ROOT / 'native'}", f"-Wl,-rpath,{core.parent}")
    run(f"{name}-compile", "g++", *words, *places, source, core, "-pthread", "-o", program)
    return program


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


def numbers(text: str) -> dict[str, float]:
    """What a driver's last line says, as `name=number` words."""
    found = re.findall(r"([\w-]+)=(-?[\d.]+(?:e[-+]?\d+)?)", last_line(text))
    return {name: float(number) for name, number in found}


def pytest_words(*options: str | Path) -> tuple[str | Path, ...]:
    return (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options)


def share_out(work: Work, parts: int) -> list[int]:
    """What is left, in as many parts as there are processors to take them."""
    return [work.left // parts + (number < work.left % parts) for number in range(parts)]
