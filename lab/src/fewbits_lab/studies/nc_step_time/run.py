"""How much time compression saves: the paper's 26 % and 66 % beside ours, measured and modelled."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from fewbits.errors import SpecError
from fewbits.train.extras import check_installed
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.links import figures as link_figures
from fewbits_lab.links import tools
from fewbits_lab.studies.nc_step_time import gpu

if TYPE_CHECKING:
    from fewbits_lab.studies.nc_step_time.linked import MeasuredSteps


STEP_MEASURED, STEP_MODELLED, NOT_RUN = "measured", "modelled", "not run"
STEP_COMPUTE, STEP_PLAIN, STEP_NATURAL, STEP_SWITCH = (
    "compute",
    "none",
    "natural",
    "natural, switch",
)
_OPERATORS = (STEP_COMPUTE, STEP_PLAIN, STEP_NATURAL, "natural:coder=rans")
STEP_RANKS, LINK = 2, 1e9
LINKS = (1e9, 1e10)  # the paper's machines have the second
_ROUNDS, _QUICK_ROUNDS = 8, 2  # of steps, operators taking turns
BATCHES = {"ResNet-110": 32, "AlexNet": 2}
IMAGES = 50_000  # of an epoch
CLAIMED = {"ResNet-110": 26.0, "AlexNet": 66.0}
GPU = {
    "ResNet-110": gpu.PaperModel(1_727_962, 0.253e9, 32),
    "AlexNet": gpu.PaperModel(62_378_344, 1.135e9, 32),
}
NOT_TRIED = {
    "ResNet-20, 44, 56": ("1.61, 1.65 and 1.6 times as fast", "CIFAR-10 to the end on 8 GPUs"),
    "DenseNet40": ("1.26 times as fast", "CIFAR-10 to the end on 8 GPUs"),
    "nine ImageNet models": ("1.6 to 4.2 times the images a second", "ImageNet on 8 GPUs"),
}


@dataclass(frozen=True, slots=True)
class NcStepTimeRow:
    """A step of one model with one operator, and what it saves of plain training's, in per cent.

    The interval is of 95 %, by resampling steps. `epoch_seconds` is the step times the steps of an
    epoch: extrapolated, never run.
    """

    kind: str
    model: str
    operator: str
    remark: str = ""
    parameters: int | None = None
    workers: int | None = None
    gbit_per_second: float | None = None
    batch: int | None = None
    compute_seconds: float | None = None
    codec_seconds: float | None = None
    step_seconds: float | None = None
    sent_bytes: int | None = None
    reduction: float | None = None
    reduction_low: float | None = None
    reduction_high: float | None = None
    claimed_reduction: float | None = None
    epoch_seconds: float | None = None


def rows(settings: StudySettings, tick: Tick) -> list[NcStepTimeRow]:
    """Steps on this machine where it can shape links, then the model, then what was not run."""
    found = _measured(settings, tick)
    found += [row for model in GPU for rate in LINKS for row in _modelled(model, rate)]
    found += [NcStepTimeRow(NOT_RUN, model, "all", f"{why}: not on two cores")
              for model, (_, why) in NOT_TRIED.items()]  # fmt: skip
    tick(1.0)
    return found


def _measured(settings: StudySettings, tick: Tick) -> list[NcStepTimeRow]:
    try:
        tools.check_ready()
    except SpecError as error:
        return [NcStepTimeRow(NOT_RUN, model, "all", str(error)) for model in BATCHES]
    check_installed("torch")
    from fewbits_lab.studies.nc_step_time import linked

    operators = list(_OPERATORS[:3] if settings.quick else _OPERATORS)
    rounds = _QUICK_ROUNDS if settings.quick else _ROUNDS
    cases = [linked.LinkedCase(model, operators, batch, rounds) for model, batch in BATCHES.items()]
    found: dict[tuple[str, str], MeasuredSteps] = {}
    for one in linked.measure(cases, STEP_RANKS, LINK):
        found[one.model, one.operator] = one
        tick(len(found) / (len(cases) * len(operators) + 1))
    return [_of_steps(model, operator, found) for model, operator in found]


def _of_steps(
    model: str, operator: str, found: dict[tuple[str, str], "MeasuredSteps"]
) -> NcStepTimeRow:
    own, plain = found[model, operator], found[model, STEP_PLAIN]
    seconds, batch = _median(own), BATCHES[model]
    ratio = link_figures.ratio(plain.seconds, own.seconds)
    compared = operator not in (STEP_COMPUTE, STEP_PLAIN)
    saved, low, high = (round(100 * (1 - 1 / t), 2) if compared else None for t in ratio)
    epoch = round(seconds * IMAGES / (batch * STEP_RANKS), 1) if model == "ResNet-110" else None
    return NcStepTimeRow(
        STEP_MEASURED, model, operator, "", own.parameters, STEP_RANKS, LINK / 1e9, batch,
        _median(found[model, STEP_COMPUTE]), own.codec_seconds, seconds, own.sent_bytes,
        saved, low, high, CLAIMED[model] if operator == STEP_NATURAL else None, epoch,
    )  # fmt: skip


def _median(own: "MeasuredSteps") -> float:
    return round(median(own.seconds), 4)


def _modelled(model: str, rate: float) -> Iterator[NcStepTimeRow]:
    about = GPU[model]
    plain = gpu.step(about, STEP_PLAIN, rate)
    for operator in gpu.SCHEMES:
        own = gpu.step(about, operator, rate)
        cut = None if operator == STEP_PLAIN else round(100 * (1 - own.seconds / plain.seconds), 2)
        yield NcStepTimeRow(
            STEP_MODELLED, model, operator, "computing is assumed", about.parameters, gpu.WORKERS,
            rate / 1e9, about.batch, round(own.compute_seconds, 5), None, round(own.seconds, 5),
            round(own.sent_bytes), cut, None, None, CLAIMED[model] if cut is not None else None,
            round(own.seconds * IMAGES / (about.batch * gpu.WORKERS), 2),
        )  # fmt: skip
