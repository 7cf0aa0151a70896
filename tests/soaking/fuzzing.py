"""R1: fuzzing, of every native reader and of the whole of `decompress`."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mutants import ROOT
from soaking.programs import (
    BUILD,
    CLANG,
    configure,
    numbers,
    run,
    sanitized_environment,
    share_out,
)
from soaking.stage import CODEC, CORE, Stage, StageError, Work

FUZZ = ROOT / "tests" / "fuzz"
TARGETS = sorted(path.stem for path in (FUZZ / "native").glob("*.cpp"))
# Turns in a round: the parser meets all that comes from outside, and is the quickest.
TURNS = {"frame": 4, "places": 2, "unpack": 2}
LENGTHS = (96, 384, 96, 1024, 96, 4096)  # bytes of an input, in one round after the other
# Stacks of allocations and memory that waits to be reused are what most of the time would go to.
QUICK = "malloc_context_size=1:quarantine_size_mb=4:thread_local_quarantine_size_kb=64"
READERS = ("frame", "unpack", "natural", "undither", "coded", "steps", "places", "units", "switch")


def together(task: Callable[..., None], parts: Iterable[tuple[Any, ...]]) -> None:
    """Two at a time; the first error is raised when all have ended."""
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(task, *own) for own in parts]
    for future in futures:
        future.result()


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


def fuzz_target(work: Work, folder: str, target: str, number: int, seconds: int) -> None:
    """One libFuzzer target for so long; what it has run is counted by its own statistics."""
    if work.over:
        return
    findings = BUILD / "fuzz" / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    length = LENGTHS[work.figures.get("rounds", 0) % len(LENGTHS)]
    limits = (f"-max_total_time={seconds}", f"-max_len={length}", f"-runs={max(work.left, 1000)}",
              "-timeout=10", "-print_final_stats=1", "-detect_leaks=0")  # fmt: skip
    place = f"-artifact_prefix={findings}/{target}-"
    text = run(
        f"{folder}-{target}-{number}", BUILD / folder / f"fuzz_{target}", *limits, place,
        *seeds(target), env=os.environ | {"ASAN_OPTIONS": QUICK},
    )  # fmt: skip
    ran = re.search(r"stat::number_of_executed_units:\s+(\d+)", text)
    if ran is None:
        raise StageError(f"{target} told no statistics")
    count = int(ran[1])
    each = work.figures.setdefault("executions", {})
    each[target] = each.get(target, 0) + count
    least = min(each, key=lambda name: each[name])
    summary = f"{len(each)} targets, the fewest {each[least]:,} of `{least}`"
    work.add(count, summary, f"{target} {count / seconds:,.0f}/s")


def rounds(work: Work, folder: str, targets: Iterable[str]) -> None:
    """Every target for the same time, again and again."""
    turns = [(name, turn) for name in targets for turn in range(TURNS.get(name, 1))]
    work.ready()
    # Long turns: each begins with all finds of earlier ones.
    seconds = max(1, min(30, work.size // (60_000 * len(turns))))
    while not work.over:
        together(fuzz_target, [(work, folder, name, turn, seconds) for name, turn in turns])
        work.figures["rounds"] = work.figures.get("rounds", 0) + 1


def fuzz_native(work: Work) -> None:
    configure("fuzz", f"-DCMAKE_CXX_COMPILER={CLANG}", "-DFEWBITS_SANITIZE=ON", "-DFEWBITS_FUZZ=ON")
    rounds(work, "fuzz", TARGETS)


def fuzz_memory(work: Work) -> None:
    """MSan sees a value that depends on memory nobody has written; Clang alone has it."""
    configure(
        "fuzz-memory", f"-DCMAKE_CXX_COMPILER={CLANG}", "-DFEWBITS_FUZZ=ON",
        "-DCMAKE_CXX_FLAGS=-fsanitize=memory -fno-omit-frame-pointer -gline-tables-only",
    )  # fmt: skip
    rounds(work, "fuzz-memory", [name for name in READERS if name in TARGETS])


def fuzz_python(work: Work) -> None:
    # Frames and vectors are NumPy's, each in an allocation of its own. Python's objects need none,
    # and twice as many inputs fit into a second.
    environment = sanitized_environment() | {"PYTHONMALLOC": "pymalloc"}
    work.ready()

    def part(number: int, share: int, seconds: float) -> None:
        words = (FUZZ / "swift.py", "--executions", str(share), "--seconds", f"{seconds:.0f}",
                 "--seed", str(work.start + number))  # fmt: skip
        text = run(f"fuzz-python-{number}", sys.executable, *words, env=environment)
        told = numbers(text)
        work.figures["accepted"] = work.figures.get("accepted", 0) + int(told["accepted"])
        total = work.row["done"] + int(told["executions"])
        taken = f"{100 * work.figures['accepted'] / total:.0f} % accepted, the others refused"
        work.add(int(told["executions"]), taken, f"{told['rate']:,.0f}/s")

    while not work.over:
        seconds = min(60.0, work.seconds_left)
        together(part, [(n, share, seconds) for n, share in enumerate(share_out(work, 2))])


STAGES = (
    Stage("fuzz-native", "R1", "libFuzzer targets with address and undefined-behaviour sanitizers",
          "executions", 10**9, (*CORE, "tests/fuzz/native/*"), fuzz_native, least=2_000_000),
    Stage("fuzz-python", "R1", "mutated frames through `decompress` with the sanitized core",
          "executions", 5 * 10**7, (*CORE, *CODEC), fuzz_python, least=20_000),
    Stage("fuzz-memory", "R1", "the readers' targets with the memory sanitizer",
          "executions", 10**8, (*CORE, "tests/fuzz/native/*"), fuzz_memory, least=500_000),
)  # fmt: skip
