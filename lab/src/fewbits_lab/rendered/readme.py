"""README.md, from many results."""

from fewbits import presets, registry
from fewbits.cli import plan as planning
from fewbits.collectives.payload import UNIT
from fewbits.low_rank import low_rank
from fewbits.theory import cost, planner, quantities
from fewbits.theory.cost import Codec, Link, TrainingJob
from fewbits.theory.planner import Candidate, Setting
from fewbits_lab.prose import bullets, code, paragraph, table
from fewbits_lab.rendered import operators
from fewbits_lab.rendered.links import slow_link, within
from fewbits_lab.results import results
from fewbits_lab.studies.accuracy import text as accuracy_text
from fewbits_lab.studies.bench import text as bench_text
from fewbits_lab.studies.bits_error import text as bits_error_text
from fewbits_lab.studies.demo import text as demo_text
from fewbits_lab.studies.device import text as device_text
from fewbits_lab.studies.feedback import text as feedback_text
from fewbits_lab.studies.flower import text as flower_text
from fewbits_lab.studies.links import chart
from fewbits_lab.studies.links import show as links_show
from fewbits_lab.studies.links import text as links_text

FAST = "100Gbit"  # of a cluster's own network
_JOB = {"params": "25e6", "workers": "8", "latency": "100us", "compute": "0.2s"}


def figure() -> str:
    """The chart of links."""
    return chart.chart_alt()


def headline() -> str:
    """Three numbers."""
    slow = slow_link()
    ours = links_text.fastest(slow, links_show.LINK_OURS)
    times = links_show.row(slow, ours)["times_plain"]
    gaps = feedback_text.differences(
        {data: accuracy_text.natural(data) for data in accuracy_text.DATA}
    )
    compress, decompress = map(bench_text.times_memcpy, bench_text.calls("natural"))
    return bullets(
        f"**{times['value']:.1f} times as fast a step** ({within(times)}, 95 %) as plain DDP with `{ours}`, for"
        f" {_millions(slow['params'])} on {slow['ranks']} ranks at 100 Mbit/s; plain DDP overtakes `natural`"
        f" {links_text.crossing(2, 'none', 'natural')} ([all links](docs/when-not.md)).",
        f"**{accuracy_text.fewer_bytes()} times fewer bytes** with `natural` both ways, accuracy difference {gaps}"
        " ([accuracy](docs/accuracy.md)).",
        f"**{compress:.2f} and {decompress:.2f} times the speed of memcpy**: `compress` and `decompress` with `natural`, one"
        " thread ([speed](docs/speed.md)).",
    )  # fmt: skip


def demo() -> str:
    """The end of the demo."""
    return paragraph(
        f"Recorded, for {_millions(results('demo')['parameters'])}: {demo_text.gain()} ([the whole",
        "screen](docs/quickstart.md#the-demo)).",
    )  # fmt: skip


def _millions(parameters: int) -> str:
    """The size of a model."""
    return f"{parameters / 1e6:.2g} million parameters"


def federated() -> str:
    """TCP bytes of Flower."""
    coded = bench_text.BENCH_CODED
    up, down = (f"{flower_text.fewer(coded, way):.1f}" for way in ("up", "down"))
    return paragraph(
        f"A round sends {up} times fewer TCP bytes up and {down} times fewer down; the first broadcast is exact",
        "([details](docs/flower.md)).",
    )  # fmt: skip


def plans() -> str:
    """The planner's verdicts on a usual link and on a fast one, with recorded speeds of codecs."""
    lines = []
    for rate in ("1Gbit", FAST):
        given = " ".join(
            f"--{name} {value}" for name, value in (_JOB | {"bandwidth": rate}).items()
        )
        lines += [f"$ fewbits plan {given}", forecast(rate)]
    return "\n".join(["```console", *lines, "```"])


def forecast(rate: str) -> str:
    """The verdict of `fewbits plan` for the job on a link of this rate."""
    job = TrainingJob(
        quantities.count(_JOB["params"]),
        quantities.count(_JOB["workers"]),
        quantities.seconds(_JOB["compute"]),
        0.0,
    )
    link = Link(quantities.bits_per_second(rate), quantities.seconds(_JOB["latency"]))
    setting = Setting(job, link, cost.sharded)
    codecs = slow_link()["inputs"]["codecs"]
    candidates = [
        Candidate(spec, registry.operator(spec).guarantee(UNIT), Codec(**codecs[spec]))
        for spec in presets.EVERYDAY
    ]
    return planning.verdict(planner.ranked(candidates, setting), setting)


def operators_table() -> str:
    """Every operator: name, guarantee, bits."""
    rows = []
    for cls in operators.every():
        spec = operators.measured_spec(cls)
        promise = bits_error_text.PROMISES.get(spec, "").partition(",")[0]
        formula = promise if promise.startswith("ω grows") else cls.formula
        rows.append([code(cls.name), formula, operators.figures(spec)[0]])
        if cls.name == "natural":
            coded = bench_text.BENCH_CODED
            rows.append([code(coded), "the same", operators.figures(coded)[0]])
    slow = presets.PRESETS[presets.SLOW_LINK].operator
    whole = low_rank(presets.PRESETS[presets.LOW_RANK].operator)
    omega = registry.operator(slow).guarantee(UNIT).omega
    rows.append([code(presets.SLOW_LINK), f"ω = {omega:.2f}", f"{bits_error_text.bits(slow):.2f}"])
    assert whole is not None
    factor, _, _, _ = operators.figures(whole.operator.spec)
    shape = f"{factor} · {whole.rank}(m + n)/mn"
    rows.append([code(presets.LOW_RANK), "α = 1, with a memory", shape])
    return table("operator|guarantee|bits a value", rows)


def when_not_to() -> str:
    """The cases against fewbits that have figures: biased methods, 16 bits."""
    times = bits_error_text.error("natural") / bits_error_text.error("bfloat16")
    slow = slow_link()
    ours = links_text.fastest(slow, links_show.LINK_OURS)
    faster = [
        f"`{name}` {links_show.row(slow, name)['times_plain']['value']:.0f} times"
        for name in (*links_text.LINK_POWERSGD, "tiny")
        if links_show.median(slow, name) < links_show.median(slow, ours)
    ]
    biased = (
        "**Slow links, if bias and a memory do no harm.** At 100 Mbit/s, against plain DDP:"
        f" {', '.join(faster)}. `powersgd` is torch's."
    )
    return bullets(
        *([biased] if faster else []),
        f"**16 bits are enough.** `bfloat16` has an error {round(times, -3):,.0f} times smaller than `natural` at less"
        " than twice the bits.",
    )  # fmt: skip


def not_promised() -> str:
    """The box: GPUs by the words of their page, and what else nobody may count on."""
    text = bullets(
        f"**GPUs.** {' '.join(device_text.claim().split())} [GPUs](docs/gpus.md) has the evidence; `fewbits verify` tries yours.",
        "**Speed on your machine.** Figures come from one machine with two cores. `fewbits bench` measures yours.",
        "**Secrecy.** Frames have a checksum, no encryption and no signature ([SECURITY.md](SECURITY.md)).",
        "**Stable names.** Before 1.0 they may change; what is deprecated stays for one release ([policy](docs/stability.md)).",
    )  # fmt: skip
    lines = ["[!IMPORTANT]", "Not promised:", "", *text.splitlines()]
    return "\n".join(f"> {line}".rstrip() for line in lines)
