"""R10 to R14 and R21: faults without a flake, replicas for a thousand steps, and steady memory."""

import sys
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

from cases import CASES
from mutants import ROOT
from soaking.fuzzing import together
from soaking.programs import LOGS, numbers, passed, pytest_words, run, summary
from soaking.stage import CORE, LIBRARY, Stage, StageError, Work

DISTRIBUTED = ROOT / "tests" / "distributed"
FAULTS = DISTRIBUTED / "test_faults.py"
STEPS = 1000
# One of each family, in all schemes that are said to keep replicas alike.
FAMILIES = (
    "identity",
    "bfloat16",
    "natural",
    "natural:coder=rans",
    "natural-dithering",
    "standard-dithering:p=2,block=64,scale=natural,coder=rans",
    "sparse-dithering:rounding=stochastic",
    "sparse-dithering:rounding=subtractive",
    "sign:block=1024",
    "spherical",
    "top-k:fraction=0.25|natural",
    "hadamard:block=64|rand-k:fraction=0.5|natural",
)
SCHEMES = ("sharded", "star", "gather")
# OMP_NUM_THREADS of all ranks or of each, and torch's own number, which holds for one thread.
SETTINGS: dict[str, tuple[Any, int | None]] = {
    "one thread by torch": (None, 1),
    "OMP=1": ("1", None),
    "OMP=2": ("2", None),
    "mixed": (["1", "2", None, "2"], None),
}
WORLDS = (2, 4)
REPLICAS = STEPS * len(FAMILIES) * len(SETTINGS) * len(WORLDS)
COVERS = (*CORE, *LIBRARY)
_FOLDERS = ("collectives", "ddp", "feedback", "localsgd", "session", "transport")
EXCHANGES = tuple(f"src/fewbits/{name}/**/*.py" for name in _FOLDERS)


def faults(work: Work) -> None:
    """Nothing else runs meanwhile: the tests have time-outs."""
    while not work.over:
        text = run(f"faults-{work.start}", *pytest_words(FAULTS))
        work.figures["tests"] = work.figures.get("tests", 0) + passed(text)
        work.add(1, f"{work.figures['tests']:,} tests", summary(text))


def replicas(work: Work) -> None:
    """All families, worlds and settings, each with its share of the steps, one after the other."""
    sys.path.insert(0, str(DISTRIBUTED))
    from launch import Launcher

    named = {part.partition(":")[0] for spec in FAMILIES for part in spec.split("|")}
    known = {part.name for case in CASES for part in case.parts} - {"float16"}  # cast as bfloat16
    if named != known:
        raise StageError(f"families without a representative: {sorted(known - named)}")
    combinations = list(product(WORLDS, SETTINGS, FAMILIES))
    Random(1).shuffle(combinations)  # one that is ended early has met some of everything
    steps = max(20, min(STEPS, work.size // len(combinations) // 20 * 20))
    done = work.figures
    done["longest"] = max(steps, done.get("longest", 0))
    launcher = Launcher()
    try:
        while not work.over:
            # Where the last run has ended; a scheme has its turn once all combinations had theirs.
            turn, number = divmod(done.get("runs", 0), len(combinations))
            world, setting, spec = combinations[number]
            scheme = SCHEMES[(turn + number) % len(SCHEMES)]
            equal = digests(launcher, world, setting, spec, scheme, steps)
            done["digests"] = done.get("digests", 0) + equal
            done["runs"] = done.get("runs", 0) + 1
            summary = f"{done['digests']:,} digests equal on all ranks in {done['runs']} runs of up"
            work.add(steps, f"{summary} to {done['longest']} steps", f"{world}, {setting}, {spec}")
    finally:
        launcher.close()


def digests(launcher: Any, world: int, setting: str, spec: str, scheme: str, steps: int) -> int:
    """How many digests of parameters were equal on all ranks: all of them, or it is an error."""
    threads, inner = SETTINGS[setting]
    found = launcher.run(
        "replicas", world, threads=threads[:world] if isinstance(threads, list) else threads,
        runs=[(spec, scheme)], steps=steps, every=max(1, steps // 20), deadline=7200.0,
        **({"inner": inner} if inner else {}),
    )  # fmt: skip
    where = f"{world} ranks, {setting}, {spec}, {scheme}"
    for outcome in found:
        if outcome.status != 0 or outcome.result != found[0].result:
            raise StageError(f"{where}: rank {outcome.rank} differs or failed: {outcome.message}")
    (own,) = found[0].result.values()
    if len(set(own)) != len(own) or len(own) < 20:
        raise StageError(f"{where}: the parameters did not change")
    return world * len(own)


def memories(work: Work) -> None:
    """The soak's tests of memories, in worlds of 2 and 4 and in every scheme."""
    cases = [f"[{world}-{scheme}]" for world in WORLDS for scheme in SCHEMES]
    name = "test_replicas_stay_identical_for_two_hundred_steps"
    while not work.over:
        case = cases[work.start % len(cases)]
        node = f"{DISTRIBUTED / 'test_feedback.py'}::{name}{case}"
        text = run(f"memories-{case[1:-1]}", *pytest_words("--soak", node))
        passed(text)
        work.add(1, "all pairs of method and operator, 200 steps", case)


def steady(work: Work) -> None:
    """Two ranks for so many steps; then calls and refusals in two processes of their own."""
    share = work.size / 20_000
    calls, refusals = max(4000, int(1e6 * share)), max(400, int(1e5 * share))
    script = ROOT / "tests" / "soaking" / "steady.py"
    growth: dict[str, float] = work.figures.setdefault("growth_mib", {})

    def told(name: str, *words: str) -> None:
        text = run(f"steady-{name}", sys.executable, script, *words)
        growth[name] = round(numbers(text)["growth"], 2)

    store = LOGS / "steady-store"
    LOGS.mkdir(parents=True, exist_ok=True)
    store.unlink(missing_ok=True)
    steps = str(work.size)
    together(told, [(f"rank-{rank}", "train", steps, str(rank), str(store)) for rank in range(2)])
    together(told, [("calls", "calls", str(calls)), ("refusals", "refusals", str(refusals))])
    done = work.figures
    done["calls"] = done.get("calls", 0) + calls
    done["refusals"] = done.get("refusals", 0) + refusals
    summary = (
        f"and {done['calls']:,} calls and {done['refusals']:,} refusals: memory grew by at most "
        f"{max(growth.values()):.1f} MiB a process, files and threads by none"
    )
    work.add(work.size, summary)


def survivors(work: Work) -> None:
    """Each trial kills another rank at another moment, with the operators in turn."""
    sys.path.insert(0, str(DISTRIBUTED))
    from test_survivors import KINDS, check

    def trial(launcher: Any, seed: int) -> float:
        longest, caught_up = check(launcher, seed, KINDS[seed % len(KINDS)])
        work.figures["caught_up"] = work.figures.get("caught_up", 0) + caught_up
        return longest

    _trials(work, trial, "all bits as in a job of the three that were left, and of all four "
            "after the killed one had come again")  # fmt: skip


def islands(work: Work) -> None:
    """Each trial kills an island in another round."""
    sys.path.insert(0, str(DISTRIBUTED))
    from test_islands import check

    def trial(launcher: Any, seed: int) -> float:
        return check(launcher, seed, ("identity", "natural:coder=rans")[seed % 2])

    _trials(work, trial, "no round lost, all bit-identical")


def _trials(work: Work, trial: Callable[[Any, int], float], what: str) -> None:
    """One after the other, each with a seed of its own; the longest wait of all is kept."""
    from launch import Launcher

    done = work.figures
    launcher = Launcher()
    try:
        while not work.over:
            try:
                longest = trial(launcher, work.start)
            except AssertionError as error:
                raise StageError(f"trial {work.start}: {error}") from error
            done["longest"] = round(max(longest, done.get("longest", 0.0)), 2)
            work.add(1, f"{what}; nobody waited longer than {done['longest']:.1f} s",
                     f"{longest:.1f} s")  # fmt: skip
    finally:
        launcher.close()


STAGES = (
    Stage("faults", "R10–R13", "`test_faults.py` again and again: killed, stopped, failing and "
          "straying ranks", "runs", 100, COVERS, faults),
    Stage("replicas", "R14", "SHA-256 of parameters equal on all ranks, every family of operators, "
          "four settings of threads", "steps", REPLICAS, COVERS, replicas,
          least=20 * REPLICAS // STEPS),
    Stage("memories", "R14", "the same with memories: all pairs of feedback and operator, 200 "
          "steps", "runs", len(WORLDS) * len(SCHEMES), COVERS, memories),
    Stage("survivors", "R10", "`kill -9` of any of four ranks at a random step, with "
          "`on_failure=\"continue\"`, and again a fourth one", "trials", 50, EXCHANGES, survivors),
    Stage("islands", "R10", "`kill -9` of an island at a random round, started again three rounds "
          "later", "trials", 20, EXCHANGES, islands),
    Stage("steady", "R21", "training of two ranks, calls and refusals: memory, files and threads "
          "stay as they are", "steps", 20_000, COVERS, steady, least=200),
)  # fmt: skip
