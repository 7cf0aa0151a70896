"""R5: every table of kernels gives the bits of the portable one."""

from collections.abc import Callable

from soaking.fuzzing import together
from soaking.programs import driver, numbers, run
from soaking.stage import CORE, Stage, StageError, Work

COVERS = (*CORE, "tests/native/sweep.cpp")


def part(work: Work, name: str, *words: object, count: int, text: Callable[[int], str]) -> None:
    told = numbers(run(f"sweep-{name}", *map(str, words)))
    if told["tables"] < 2:
        raise StageError("this machine has the portable table alone: nothing was compared")
    work.add(count, text(int(told["kernels"])))


def patterns(work: Work) -> None:
    """The run goes on where the last one has ended, in pieces for two processes."""
    program, piece = driver("sweep"), 1 << 25
    while not work.over:
        first = work.start % (1 << 32)
        sizes = [min(piece, 1 << 14 | work.left & -(1 << 14))] * 2
        together(
            lambda n=n: part(
                work, f"patterns-{n}", program, "patterns", first + n * sizes[0], sizes[n],
                count=sizes[n],
                text=lambda kernels: f"each through {kernels} kernels, there and back",
            )
            for n in range(2)
        )  # fmt: skip


def shapes(work: Work) -> None:
    program = driver("sweep")
    part(work, "shapes", program, "shapes", count=1,
         text=lambda kernels: f"{kernels} kernels at lengths 0 to 257 and addresses 0 to 63, "
         "16-bit formats whole")  # fmt: skip


def blocks(work: Work) -> None:
    program, piece = driver("sweep"), 20_000_000
    while not work.over:
        seed, size = work.start, min(piece, -(-work.left // 2))
        together(
            lambda n=n: part(
                work, f"random-{n}", program, "random", size, 2 * seed + n, count=size,
                text=lambda kernels: f"{kernels} kernels",
            )
            for n in range(2)
        )  # fmt: skip


STAGES = (
    Stage("shapes", "R5", "kernels at all short lengths and addresses, all 16-bit patterns",
          "passes", 1, COVERS, shapes),
    Stage("patterns", "R5", "all `float32` patterns through every table of kernels",
          "patterns", 1 << 32, COVERS, patterns, least=1 << 24),
    Stage("blocks", "R5", "random values in blocks, packed and coded, through every table",
          "values", 10**8, COVERS, blocks, least=10**6),
)  # fmt: skip
