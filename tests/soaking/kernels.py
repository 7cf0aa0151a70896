"""R5: every table of kernels gives the bits of the portable one."""

import aarch64
from mutants import ROOT
from soaking.fuzzing import together
from soaking.programs import LOGS, configure, driver, numbers, run
from soaking.stage import CORE, Stage, StageError, Work

COVERS = (*CORE, "tests/native/sweep.cpp")
SINGLE = (*CORE, "tests/native/compared.h", "tests/native/kernels*.cpp")


def part(work: Work, text: str, count: int, name: str, *words: object) -> None:
    """One run of the driver, `count` of the stage's unit; `text` is told the number of kernels."""
    told = numbers(run(f"sweep-{name}", *map(str, words)))
    if told["tables"] < 2:
        raise StageError("this machine has the portable table alone: nothing was compared")
    work.add(count, text.format(int(told["kernels"])))


def patterns(work: Work) -> None:
    """The run goes on where the last one has ended, in pieces for two processes."""
    program, chunk = driver("sweep"), 1 << 14
    work.ready()
    while not work.over:
        size = min(1 << 25, max(chunk, work.left // 2 // chunk * chunk))
        places = [(work.start + n * size) % (1 << 32) for n in range(2)]
        told = "each through {} kernels, there and back"
        together(part, [
            (work, told, size, f"patterns-{n}", program, "patterns", place, size)
            for n, place in enumerate(places)
        ])  # fmt: skip


def single(work: Work) -> None:
    """Kernels themselves, linked with the core's own objects: its library does not show them."""
    built = configure("driven", "-DCMAKE_CXX_COMPILER=g++")
    objects = sorted((built / "CMakeFiles" / "fewbits.dir").rglob("*.o"))
    sources = [ROOT / "tests" / "native" / name for name in aarch64.PROGRAMS]
    program, include = LOGS / "kernels", f"-I{ROOT / 'native'}"
    run("kernels-compile", "g++", *aarch64.FLAGS, include, *sources, *objects, "-o", program)
    work.ready()
    part(work, "{} kernels at lengths 0 to 300 and some large ones", 1, "kernels", program, "100")


def shapes(work: Work) -> None:
    program = driver("sweep")
    work.ready()
    told = "{} kernels at lengths 0 to 257 and addresses 0 to 63, 16-bit formats whole"
    part(work, told, 1, "shapes", program, "shapes")


def blocks(work: Work) -> None:
    program = driver("sweep")
    work.ready()
    while not work.over:
        seed, size = work.start, min(20_000_000, -(-work.left // 2))
        together(part, [
            (work, "{} kernels", size, f"random-{n}", program, "random", size, 2 * seed + n)
            for n in range(2)
        ])  # fmt: skip


STAGES = (
    Stage("kernels", "R5", "every kernel of every table that this machine runs, by itself",
          "passes", 1, SINGLE, single),
    Stage("shapes", "R5", "kernels at all short lengths and addresses, all 16-bit patterns",
          "passes", 1, COVERS, shapes),
    Stage("patterns", "R5", "all `float32` patterns through every table of kernels",
          "patterns", 1 << 32, COVERS, patterns, least=1 << 24),
    Stage("blocks", "R5", "random values in blocks, packed and coded, through every table",
          "values", 10**8, COVERS, blocks, least=10**6),
)  # fmt: skip
