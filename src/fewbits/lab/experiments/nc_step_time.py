"""How much time compression saves: the paper's 26 % and 66 % beside ours, measured and modelled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from fewbits.bench.link import figures as link_figures
from fewbits.bench.link import tools
from fewbits.errors import SpecError
from fewbits.lab import figures
from fewbits.lab.experiment import Claim, Experiment, Settings, Tick
from fewbits.lab.training import gpu
from fewbits.train.extras import check_installed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fewbits.lab.training.linked import Measured

MEASURED, MODELLED, NOT_RUN = "measured", "modelled", "not run"
COMPUTE, PLAIN, NATURAL, SWITCH = "compute", "none", "natural", "natural, switch"
OPERATORS = (COMPUTE, PLAIN, NATURAL, "natural:coder=rans")
RANKS, LINK = 2, 1e9
LINKS = (1e9, 1e10)  # the paper's machines have the second
ROUNDS, QUICK_ROUNDS = 8, 2  # of steps, operators taking turns
BATCHES = {"ResNet-110": 32, "AlexNet": 2}
IMAGES = 50_000  # of an epoch
CLAIMED = {"ResNet-110": 26.0, "AlexNet": 66.0}
LESS_DATA = 84.0
_GPU = {
    "ResNet-110": gpu.Model(1_727_962, 0.253e9, 32),
    "AlexNet": gpu.Model(62_378_344, 1.135e9, 32),
}
_NOT_TRIED = {
    "ResNet-20, 44, 56": ("1.61, 1.65 and 1.6 times as fast", "CIFAR-10 to the end on 8 GPUs"),
    "DenseNet40": ("1.26 times as fast", "CIFAR-10 to the end on 8 GPUs"),
    "nine ImageNet models": ("1.6 to 4.2 times the images a second", "ImageNet on 8 GPUs"),
}


@dataclass(frozen=True, slots=True)
class Row:
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


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """Steps on this machine where it can shape links, then the model, then what was not run."""
    found = _measured(settings, tick)
    found += [row for model in _GPU for rate in LINKS for row in _modelled(model, rate)]
    found += [Row(NOT_RUN, model, "all", f"{why}: not on two cores")
              for model, (_, why) in _NOT_TRIED.items()]  # fmt: skip
    tick(1.0)
    return found


def _measured(settings: Settings, tick: Tick) -> list[Row]:
    try:
        tools.check_ready()
    except SpecError as error:
        return [Row(NOT_RUN, model, "all", str(error)) for model in BATCHES]
    check_installed("torch")
    from fewbits.lab.training import linked

    operators = list(OPERATORS[:3] if settings.quick else OPERATORS)
    rounds = QUICK_ROUNDS if settings.quick else ROUNDS
    cases = [linked.Case(model, operators, batch, rounds) for model, batch in BATCHES.items()]
    found: dict[tuple[str, str], Measured] = {}
    for one in linked.measure(cases, RANKS, LINK):
        found[one.model, one.operator] = one
        tick(len(found) / (len(cases) * len(operators) + 1))
    return [_of_steps(model, operator, found) for model, operator in found]


def _of_steps(model: str, operator: str, found: dict[tuple[str, str], "Measured"]) -> Row:
    own, plain = found[model, operator], found[model, PLAIN]
    seconds, batch = _median(own), BATCHES[model]
    ratio = link_figures.ratio(plain.seconds, own.seconds)
    compared = operator not in (COMPUTE, PLAIN)
    saved, low, high = (round(100 * (1 - 1 / t), 2) if compared else None for t in ratio)
    epoch = round(seconds * IMAGES / (batch * RANKS), 1) if model == "ResNet-110" else None
    return Row(
        MEASURED, model, operator, "", own.parameters, RANKS, LINK / 1e9, batch,
        _median(found[model, COMPUTE]), own.codec_seconds, seconds, own.sent_bytes,
        saved, low, high, CLAIMED[model] if operator == NATURAL else None, epoch,
    )  # fmt: skip


def _median(own: "Measured") -> float:
    return round(median(own.seconds), 4)


def _modelled(model: str, rate: float) -> Iterator[Row]:
    about = _GPU[model]
    plain = gpu.step(about, PLAIN, rate)
    for operator in gpu.SCHEMES:
        own = gpu.step(about, operator, rate)
        cut = None if operator == PLAIN else round(100 * (1 - own.seconds / plain.seconds), 2)
        yield Row(
            MODELLED, model, operator, "computing is assumed", about.parameters, gpu.WORKERS,
            rate / 1e9, about.batch, round(own.compute_seconds, 5), None, round(own.seconds, 5),
            round(own.sent_bytes), cut, None, None, CLAIMED[model] if cut is not None else None,
            round(own.seconds * IMAGES / (about.batch * gpu.WORKERS), 2),
        )  # fmt: skip


def find(table: Sequence[Row], kind: str, model: str, operator: str, gbit: float) -> Row | None:
    """The row of this case."""
    wanted = (kind, model, operator, gbit)
    return next(
        (r for r in table if (r.kind, r.model, r.operator, r.gbit_per_second) == wanted), None
    )


def findings(table: Sequence[Row]) -> list[str]:
    """Each measured saving, and what computing the paper's would follow from."""
    said = []
    for row in table:
        if row.kind == MEASURED and row.reduction is not None:
            epoch = f", an epoch {row.epoch_seconds or 0:,.0f} s (extrapolated)"
            said.append(
                f"Measured, {row.model}, {RANKS} ranks, 1 Gbit/s: {row.operator} saves "
                f"{row.reduction:.1f} % [{row.reduction_low:.1f}, {row.reduction_high:.1f}] of a "
                f"step of which computing takes {row.compute_seconds:.2f} s; a step takes "
                f"{row.step_seconds:.2f} s{epoch if row.epoch_seconds else ''}."
            )
        elif row.kind == NOT_RUN:
            said.append(f"{row.model}: not run: {row.remark}.")
    for model, about in _GPU.items():
        for operator in (NATURAL, SWITCH):
            needed = gpu.compute_for(about, operator, LINKS[1], CLAIMED[model] / 100)
            whence = f"{1e3 * needed:.0f} ms of computing" if needed >= 0 else "no computing time"
            said.append(
                f"Modelled, {model}, {gpu.WORKERS} workers, 10 Gbit/s, {operator}: the paper's "
                f"{CLAIMED[model]:.0f} % would follow from {whence} in a step; "
                f"{1e3 * about.compute_seconds:.0f} ms are assumed."
            )
    return said


def claims(table: Sequence[Row]) -> list[Claim]:
    """The two headlines are decided by what was measured; the model stands beside it."""
    found = [_headline(table, model) for model in CLAIMED]
    own = find(table, MODELLED, "AlexNet", SWITCH, LINKS[1] / 1e9)
    plain = find(table, MODELLED, "AlexNet", PLAIN, LINKS[1] / 1e9)
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
        for model, (claimed, why) in _NOT_TRIED.items()
    ]  # fmt: skip
    return found


def _headline(table: Sequence[Row], model: str) -> Claim:
    own, claimed = find(table, MEASURED, model, NATURAL, LINK / 1e9), CLAIMED[model]
    beside = ", ".join(
        f"{row.reduction:.0f} % at {rate / 1e9:g} Gbit/s"
        for rate in LINKS
        if (row := find(table, MODELLED, model, NATURAL, rate / 1e9)) and row.reduction is not None
    )
    modelled = f"modelled with an assumed GPU: {beside}"
    about = ("natural", f"experiments, {model}", "training time saved", f"{claimed:.0f} %")
    if own is None or own.reduction is None or own.reduction_low is None:
        return Claim(*about, f"not measured; {modelled}", None, "not run: it needs root on Linux")
    ours = f"measured {own.reduction:.1f} % of a step, 2 CPU ranks, 1 Gbit/s; {modelled}"
    agrees = own.reduction_low >= claimed
    share = 100 * (own.compute_seconds or 0) / (own.step_seconds or 1)
    why = (
        ""
        if agrees
        else f"a processor computes for {share:.0f} % of the compressed step, a GPU less"
    )
    return Claim(*about, ours, agrees, "" if agrees else why)


def draw(table: Sequence[Row]) -> "Figure":
    """Steps as bars, computing apart, for what was measured and what was modelled."""
    drawn, plots = figures.panels(
        "A step with and without compression: seconds, computing in grey", 2, 2,
        width=12, height=7,
    )  # fmt: skip
    for column, model in enumerate(CLAIMED):
        own = [row for row in table if (row.kind, row.model) == (MEASURED, model)]
        _bars(plots[column], [row for row in own if row.operator != COMPUTE],
              f"{model}, measured: {RANKS} CPU ranks, 1 Gbit/s")  # fmt: skip
        cases = [row for row in table if (row.kind, row.model) == (MODELLED, model)]
        _bars(plots[2 + column], cases, f"{model}, modelled: {gpu.WORKERS} workers, assumed GPU")
    return drawn


def _bars(plot: "Axes", cases: Sequence[Row], title: str) -> None:
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


EXPERIMENT = Experiment(
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
    row=Row,
    compute=rows,
    draw=draw,
    findings=findings,
    claims=claims,
    is_complete=lambda table: any(row.kind == MEASURED for row in table),
)
