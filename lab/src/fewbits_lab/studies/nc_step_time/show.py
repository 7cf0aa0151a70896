"""Shows `nc-step-time`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Claim, Experiment
from fewbits_lab.studies.nc_step_time import gpu
from fewbits_lab.studies.nc_step_time.run import (
    CLAIMED,
    GPU,
    LINKS,
    NOT_RUN,
    NOT_TRIED,
    STEP_COMPUTE,
    STEP_MEASURED,
    STEP_MODELLED,
    STEP_NATURAL,
    STEP_PLAIN,
    STEP_RANKS,
    STEP_SWITCH,
    NcStepTimeRow,
    rows,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LESS_DATA = 84.0


def find(
    table: Sequence[NcStepTimeRow], kind: str, model: str, operator: str, gbit: float
) -> NcStepTimeRow | None:
    """The row of this case."""
    wanted = (kind, model, operator, gbit)
    return next(
        (r for r in table if (r.kind, r.model, r.operator, r.gbit_per_second) == wanted), None
    )


def findings(table: Sequence[NcStepTimeRow]) -> list[str]:
    """Each measured saving, and the computing that would explain the paper's."""
    said = []
    for row in table:
        if row.kind == STEP_MEASURED and row.reduction is not None:
            epoch = f", an epoch {row.epoch_seconds or 0:,.0f} s (extrapolated)"
            said.append(
                f"Measured, {row.model}, {STEP_RANKS} ranks, 1 Gbit/s: {row.operator} saves "
                f"{row.reduction:.1f} % [{row.reduction_low:.1f}, {row.reduction_high:.1f}] of a "
                f"step of which computing takes {row.compute_seconds:.2f} s; a step takes "
                f"{row.step_seconds:.2f} s{epoch if row.epoch_seconds else ''}."
            )
        elif row.kind == NOT_RUN:
            said.append(f"{row.model}: not run: {row.remark}.")
    for model, about in GPU.items():
        for operator in (STEP_NATURAL, STEP_SWITCH):
            needed = gpu.compute_for(about, operator, LINKS[1], CLAIMED[model] / 100)
            whence = f"{1e3 * needed:.0f} ms of computing" if needed >= 0 else "no computing time"
            said.append(
                f"Modelled, {model}, {gpu.WORKERS} workers, 10 Gbit/s, {operator}: the paper's "
                f"{CLAIMED[model]:.0f} % would follow from {whence} in a step; "
                f"{1e3 * about.compute_seconds:.0f} ms are assumed."
            )
    return said


_ELSEWHERE = (
    ("experiments, VGG11, CIFAR-10", "natural dithering with 16 times fewer levels",
     "the same per epoch, about half the bits",
     "days on two cores; `nc-training-mnist` has this pair of operators on a CNN"),
    ("experiments, ResNet18, CIFAR-10", "natural compression after top-k",
     "37.5 % less traffic at the same accuracy",
     "days on two cores; `nc-training-mnist` has this pair of operators on a CNN"),
    ("experiments, NCF, MovieLens-20M", "natural compression loses no accuracy",
     "the same hit rate", "20 million ratings that no package bundles"),
    ("experiments, OmniReduce", "all-reduce of 100 MB, 1 % of it not 0",
     "30 times as fast as NCCL", "8 machines, and OmniReduce is not one of our peers"),
    ("Figure 8", "an aggregator's speed with 8 workers",
     "535 M values a second with C_nat, 195 M without compression",
     "8 machines on 10 Gbit/s; `switch-speed` measures our aggregator on one machine"),
)  # fmt: skip


def claims(table: Sequence[NcStepTimeRow]) -> list[Claim]:
    """Data that is sent, and what was not run; `time-saved` decides the two headlines."""
    found = []
    own = find(table, STEP_MODELLED, "AlexNet", STEP_SWITCH, LINKS[1] / 1e9)
    plain = find(table, STEP_MODELLED, "AlexNet", STEP_PLAIN, LINKS[1] / 1e9)
    if own and plain and own.sent_bytes and plain.sent_bytes:
        less = 100 * (1 - own.sent_bytes / plain.sent_bytes)
        found.append(
            Claim("natural", "Figure 9", "AlexNet: data that a worker sends, with aggregation in "
                  "the network", f"{LESS_DATA:.0f} % less",
                  f"{less:.1f} % less than a ring all-reduce of 8 workers (modelled: one byte a "
                  "value)", less >= LESS_DATA,
                  "" if less >= LESS_DATA else "the model has other bytes", by_formula=True)
        )  # fmt: skip
    found += [
        Claim("natural", f"experiments, {model}", "training is faster", claimed, "not run", None,
              f"not run: {why}")
        for model, (claimed, why) in NOT_TRIED.items()
    ]  # fmt: skip
    found += [
        Claim("natural", where, claim, claimed, "not run", None, f"not run: {why}")
        for where, claim, claimed, why in _ELSEWHERE
    ]
    return found


def draw(table: Sequence[NcStepTimeRow]) -> "Figure":
    """Steps as bars, computing apart, for what was measured and what was modelled."""
    drawn, plots = figures.panels(
        "A step with and without compression: seconds, computing in grey", 2, 2,
        width=12, height=7,
    )  # fmt: skip
    for column, model in enumerate(CLAIMED):
        own = [row for row in table if (row.kind, row.model) == (STEP_MEASURED, model)]
        _bars(plots[column], [row for row in own if row.operator != STEP_COMPUTE],
              f"{model}, measured: {STEP_RANKS} CPU ranks, 1 Gbit/s")  # fmt: skip
        cases = [row for row in table if (row.kind, row.model) == (STEP_MODELLED, model)]
        _bars(plots[2 + column], cases, f"{model}, modelled: {gpu.WORKERS} workers, assumed GPU")
    return drawn


def _bars(plot: "Axes", cases: Sequence[NcStepTimeRow], title: str) -> None:
    plot.set_title(title)
    if not cases:
        plot.set_axis_off()
        plot.text(0, 0.5, "not run: it needs root on Linux", fontsize=11)
        return
    several = len({row.gbit_per_second for row in cases}) > 1
    labels = [
        row.operator + (f", {row.gbit_per_second:g} Gbit/s" if several else "") for row in cases
    ]
    places = range(len(cases))
    plot.barh(places, [row.step_seconds or 0 for row in cases], color=figures.BLUE, height=0.6)
    plot.barh(places, [row.compute_seconds or 0 for row in cases], color=figures.GREY, height=0.6)
    for place, row in zip(places, cases, strict=True):
        saved = "" if row.reduction is None else f"{-row.reduction:+.0f} %"
        plot.annotate(saved, (row.step_seconds or 0, place), (4, 0), va="center",
                      textcoords="offset points", fontsize=9)  # fmt: skip
    figures.names(plot, labels)
    plot.set_xlabel("seconds")
    plot.margins(x=0.12)


NC_STEP_TIME = Experiment(
    name="nc-step-time",
    title="Time of a step: ResNet-110 and AlexNet on a slow link",
    about="Measured: real steps of DDP, forward, backward and SGD, between two network namespaces "
    "on this machine with links of 1 Gbit/s, one processor core a rank; ResNet-110 (1.7 M "
    "parameters) with 32 images a rank, AlexNet (62.4 M) with 2 of 227 x 227 pixels, all random. "
    "An epoch is a step times its steps, extrapolated. Modelled, by theory.cost: the paper's 8 "
    "workers with 32 images each, computing at a quarter of what a P100 promises (assumed), coding "
    "at speeds recorded on one thread of one processor, a ring all-reduce without compression, "
    "20 µs of latency, nothing overlapping; 'switch' sends one byte a value to an aggregator in "
    "the network and gets one back, as in the paper. The paper's figures are of whole trainings.",
    row=NcStepTimeRow,
    compute=rows,
    draw=draw,
    findings=findings,
    claims=claims,
    is_complete=lambda table: any(row.kind == STEP_MEASURED for row in table),
)
