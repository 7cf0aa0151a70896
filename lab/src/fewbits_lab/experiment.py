"""An experiment computes rows from settings and draws a figure from rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from fewbits_lab.parts import FinishedParts

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from matplotlib.figure import Figure

R = TypeVar("R", bound="DataclassInstance")
Tick = Callable[[float], None]  # told which part of the work is done, from 0 to 1


@dataclass(frozen=True, slots=True)
class StudySettings:
    """The settings of rows. `quick` takes fewer repetitions and gives rougher figures.

    `data` is a folder of data sets, for the experiments that take some: LIBSVM files, in it or in
    `libsvm`, and the folders `mnist`, `cifar10` and `tinyshakespeare`. `parts` is where finished
    parts are kept; rows do not depend on it.
    """

    seed: int = 7
    quick: bool = False
    data: str | None = None
    parts: FinishedParts = field(default_factory=FinishedParts, compare=False, repr=False)


def silent(part: float) -> None:
    """A `Tick` for callers without a progress bar."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper and our result; `agrees` is None if it was not run.

    What is decided `by_formula` follows from arithmetic, whatever is measured: it is not counted.
    """

    paper: str  # "natural" or "optimal"
    where: str  # "Table 5", "Section 6.2"
    claim: str
    claimed: str
    ours: str
    agrees: bool | None
    why: str = ""  # demanded where it does not agree
    by_formula: bool = False


def nothing(_: Sequence[object]) -> list[str]:
    """No findings."""
    return []


def no_claims(_: Sequence[object]) -> list[Claim]:
    """No claims of a paper."""
    return []


def always(_: Sequence[object]) -> bool:
    """Rows are always complete."""
    return True


@dataclass(frozen=True, slots=True)
class Experiment(Generic[R]):
    """One table or figure.

    `findings` are sentences about the rows, with their numbers, for questions that a paper asks.
    `claims` are the papers' headline claims that these rows decide.
    Equal settings give equal rows. `version` is raised whenever rows or the figure change, so
    that results of older code are not taken for finished. Rows that only say what was not run, for
    lack of data or rights, are not complete: they are not taken for finished either.
    """

    name: str
    title: str
    about: str
    row: type[R]
    compute: Callable[[StudySettings, Tick], list[R]]
    draw: Callable[[Sequence[R]], "Figure"]
    findings: Callable[[Sequence[R]], list[str]] = nothing
    claims: Callable[[Sequence[R]], list[Claim]] = no_claims
    version: int = 1
    is_complete: Callable[[Sequence[R]], bool] = always
