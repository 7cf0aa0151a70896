"""`fewbits plan`: recommends an operator for a link and a model, or none, before training."""

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fewbits import presets, registry
from fewbits.bench import speeds
from fewbits.cli.console import Parser, ProgressBar, Renamed, print_json, table
from fewbits.collectives.payload import UNIT
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.theory import cost, planner, quantities
from fewbits.theory.clusters import BETWEEN_NODES, Cluster
from fewbits.theory.cost import Codec, Link, TrainingJob
from fewbits.theory.planner import Candidate, Prediction, Setting

SPECS = (
    "bfloat16", "float16", "natural", "natural:coder=rans", "natural-dithering",
    "standard-dithering", "sparse-dithering", "sparse-dithering:rounding=stochastic",
    "sparse-dithering:rounding=subtractive", "spherical:scale=unbiased", "sign",
    "top-k:fraction=0.01|natural", "rand-k:fraction=0.1|natural", "one-bit", "two-bit",
)  # fmt: skip
UNPLANNED = (
    "its bytes depend on the shapes of your matrices (docs/low-rank.md); `fewbits train --operator "
    f"none --operator {presets.LOW_RANK} --link 100Mbit` measures a step"
)
MODELLED = "step times (docs/theory.md); iterations by Theorem 9, worst case over vectors"


def add_options(parser: Parser) -> None:
    parser.add_example(
        "fewbits plan --params 25e6 --workers 8 --bandwidth 1Gbit --latency 5ms --compute 0.2s"
    )
    add = partial(_add, parser)
    parser.add_argument("specs", nargs="*", metavar="SPEC", help="operators (default: a selection)")
    planned = ", ".join(name for name in presets.PRESETS if not presets.is_low_rank(name))
    text = f"the same as SPEC, or a preset ({planned}); may be repeated"
    parser.add_argument(
        "--operator", action="append", default=[], metavar="SPEC", dest="named", help=text
    )
    add("--params", quantities.count, "parameters of the model, such as 25e6")
    parser.add_argument(
        "--workers", type=_reading(quantities.count), help="how many exchange gradients"
    )
    add("--bandwidth", quantities.bits_per_second, "of a worker's link, such as 1Gbit or 100Mbps; "
        "with --nodes of a node's link to the others")  # fmt: skip
    nodes = parser.add_argument_group("two networks, instead of --workers")
    for name, read, text in (
        ("--nodes", quantities.count, "how many nodes"),
        ("--gpus-per-node", quantities.count, "workers of a node"),
        ("--inner-bandwidth", quantities.bits_per_second, "of a worker's links inside its node"),
    ):
        nodes.add_argument(name, type=_reading(read), help=text)
    add("--compute", quantities.seconds, "a step without messages, such as 0.2s")
    add("--latency", quantities.seconds, "one way, such as 5ms (default 0s)", "0s")
    add("--exchange", quantities.seconds, "a rank's own work for one exchange of messages, such as "
        "1ms; fewbits-lab link measures it (default 0s)", "0s")  # fmt: skip
    add("--busy", _up_to(1.0), "share of the time on the wire in which the processor moves bytes, "
        "0 to 1; fewbits-lab link measures it (default 0)", "0")  # fmt: skip
    add("--overlap", _up_to(1.0), "share of computing during which messages travel, 0 to 1 "
        "(default 0)", "0")  # fmt: skip
    add("--noise", _up_to(math.inf), "variance of the mean gradient over the squared gradient norm "
        "aimed at (default inf, the worst for compression)", "inf")  # fmt: skip
    collectives = sorted(cost.COLLECTIVE_TRAFFIC)
    parser.add_argument(
        "--collective", choices=collectives, default="sharded", help="(default sharded)"
    )
    parser.add_argument("--scheme", action=Renamed, dest="collective", choices=collectives)
    parser.add_argument("--speeds", metavar="FILE", help="JSON with speeds, instead of measuring")
    parser.add_argument("--measure", action="store_true", help="measure speeds again")


def run(options: argparse.Namespace) -> None:
    setting = _setting(options)
    options.specs = [*options.specs, *options.named]
    specs = list(dict.fromkeys(_operator(spec).spec for spec in options.specs or SPECS))
    costs = _costs(options, specs)
    unit = min(setting.job.values, UNIT)
    candidates = [
        Candidate(spec, registry.operator(spec).guarantee(unit), own) for spec, own in costs.items()
    ]
    rows = planner.ranked(candidates, setting)
    chosen_by_user = options.specs or options.speeds is not None
    advised = rows if chosen_by_user else everyday(rows)
    if options.json:
        print_json(_report(rows, advised, setting, costs, options))
        return
    print(_table(rows, setting))
    print()
    print(verdict(advised, setting))
    print(better_in_theory(rows, advised), end="")
    if not chosen_by_user:
        print(not_planned(advised), end="")
    print(_source(options))
    print(f"modelled: {MODELLED}")
    if any(not row.unbiased for row in rows):
        print("* biased: iterations hold where gradients agree; otherwise use error feedback")


def _operator(spec: str) -> Operator:
    """The operator of a spec, or of a preset by its name."""
    if spec == presets.AUTO:
        raise SpecError("auto chooses by measuring a run: without SPEC, this plans what it tries")
    if presets.is_low_rank(spec):
        raise SpecError(f"no forecast for {spec!r}: {UNPLANNED}")
    presets.refuse_reference(spec)
    preset = presets.PRESETS.get(spec)
    return registry.operator(spec if preset is None else preset.operator)


def everyday(rows: list[Prediction]) -> list[Prediction]:
    """The operators that `auto` tries too, with which whole trainings were measured."""
    return [row for row in rows if row.spec in presets.advised()]


def better_in_theory(rows: list[Prediction], advised: list[Prediction]) -> str:
    """A line about an operator that is not advised and whose forecast is better; or nothing."""
    first, second = planner.best(rows), planner.best(advised)
    gains = [1.0 if own is None or own.gain is None else own.gain for own in (first, second)]
    if first is None or first in advised or gains[0] < planner.WORTH * gains[1]:
        return ""
    return (
        f"in theory {first.spec} gains more, {gains[0]:.2f}x; advised is what `auto` tries "
        "too and whole trainings were measured with (docs/choosing.md)\n"
    )


def not_planned(advised: list[Prediction]) -> str:
    """A line about what may be faster and has no forecast, if compression pays; or nothing."""
    if planner.best(advised) is None:
        return ""
    return f"not in this table: {presets.LOW_RANK} (biased, with a memory), {UNPLANNED}\n"


def verdict(rows: list[Prediction], setting: Setting) -> str:
    """One line of advice: an operator and its gain, or not to compress and where it would pay."""
    plain = setting.plain.total_seconds
    if setting.job.workers == 1:
        return "verdict: do not compress: one worker sends nothing"
    found = planner.best(rows)
    if found is None:
        below = planner.pays_below_bits_per_second(rows)
        where = (
            f"compression pays below about {quantities.rate_text(below)}"
            if below > 0
            else "none of these operators pays on a slower link either"
        )
        return f"verdict: do not compress: a step takes {plain:.3g} s without; {where}"
    name = presets.advised().get(found.spec, found.spec)
    where = ""
    if setting.cluster is not None:
        between = found.axis == BETWEEN_NODES
        where = " between nodes (across=)" if between else " among all ranks"
    return (
        f"verdict: {name}{where}: the same accuracy {found.gain:.2f}x as soon, "
        f"a step in {found.step.total_seconds:.3g} s instead of {plain:.3g} s"
    )


def _add(
    parser: Parser, name: str, read: Callable[[str], float], text: str, default: str | None = None
) -> None:
    """An option that is parsed at once, so that bad values are reported before missing ones."""
    reading = _reading(read)
    parser.add_argument(name, type=reading, required=default is None, default=default, help=text)


def _reading(read: Callable[[str], float]) -> Callable[[str], float]:
    """A reader whose errors argparse shows."""

    def reading(value: str) -> float:
        try:
            return read(value)
        except SpecError as error:  # argparse keeps the words of no other error
            raise argparse.ArgumentTypeError(str(error)) from error

    return reading


def _up_to(most: float) -> Callable[[str], float]:
    """A reader of numbers from 0 to `most`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= most:
            raise SpecError(f"expected a number from 0 to {most:g}, got {text!r}")
        return value

    return read


def _setting(options: argparse.Namespace) -> Setting:
    cluster = _cluster(options)
    workers = options.workers if cluster is None else cluster.workers
    job = TrainingJob(options.params, workers, options.compute, options.overlap)
    link = Link(options.bandwidth, options.latency, options.exchange, options.busy)
    traffic = cost.COLLECTIVE_TRAFFIC[options.collective]
    return Setting(job, link, traffic, options.noise, cluster)


def _cluster(options: argparse.Namespace) -> Cluster | None:
    """The nodes that were given, or None for workers with a link each."""
    given = (options.nodes, options.gpus_per_node, options.inner_bandwidth)
    if all(each is None for each in given):
        if options.workers is None:
            raise SpecError("pass --workers, or --nodes, --gpus-per-node and --inner-bandwidth")
        return None
    if any(each is None for each in given):
        raise SpecError("nodes need --nodes, --gpus-per-node and --inner-bandwidth, all three")
    cluster = Cluster(*given)
    if cluster.nodes == 1:
        raise SpecError(
            f"--nodes 1 has no link between nodes: pass --workers {cluster.width} and "
            "the inner bandwidth as --bandwidth"
        )
    if options.workers not in (None, cluster.workers):
        raise SpecError(
            f"{cluster.nodes} nodes of {cluster.width} are {cluster.workers} workers, not "
            f"{options.workers}: leave --workers out"
        )
    if options.collective != "sharded":
        raise SpecError(f"nodes exchange by sharded: leave --collective {options.collective} out")
    return cluster


def _costs(options: argparse.Namespace, specs: list[str]) -> dict[str, Codec]:
    if options.speeds is not None:
        return speeds.given(Path(options.speeds), specs if options.specs else [])
    with ProgressBar("measuring speeds", len(specs)) as progress:
        return speeds.kept(specs, again=options.measure, advance=progress.advance)


def _table(rows: list[Prediction], setting: Setting) -> str:
    titles = ("operator", "bits", "step s", "codec s", "wire s", "iterations", "gain", "pays below")
    plain = setting.plain
    cells = [
        (
            row.spec if row.unbiased else f"{row.spec} *",
            f"{row.bits_per_value:.2f}",
            f"{row.step.total_seconds:.3g}",
            f"{row.step.codec_seconds:.2g}",
            f"{row.step.wire_seconds + row.step.latency_seconds:.2g}",
            "no promise" if row.slowdown is None else f"x {row.slowdown:.4g}",
            "-" if row.gain is None else f"{row.gain:.3g}",
            _where(row.pays_below_bits_per_second),
        )
        for row in rows
    ]
    total, wire = f"{plain.total_seconds:.3g}", f"{plain.wire_seconds + plain.latency_seconds:.2g}"
    bare = ("(no compression)", "32.00", total, "0", wire, "x 1", "1", "")
    place = sum(1 for row in rows if row.gain is not None and row.gain > 1)
    cells.insert(place, bare)
    right = ",".join(titles[1:])
    if setting.cluster is None:
        return table(titles, cells, right=right)
    axes = [row.axis for row in rows]
    axes.insert(place, "")
    both = [(*own, axis) for own, axis in zip(cells, axes, strict=True)]
    return table((*titles, "compressed"), both, right=right)


def _where(rate: float | None) -> str:
    if rate is None:
        return "-"
    if rate == math.inf:
        return "any rate"
    return "never" if rate == 0 else quantities.rate_text(rate)


def _report(
    rows: list[Prediction],
    advised: list[Prediction],
    setting: Setting,
    costs: dict[str, Codec],
    options: argparse.Namespace,
) -> dict[str, Any]:
    found = planner.best(advised)
    return {
        "setting": {
            **asdict(setting.job),
            **asdict(setting.link),
            **({} if setting.cluster is None else asdict(setting.cluster)),
            "scheme": options.collective,
            "noise": _finite(setting.noise),
        },
        "given" if options.speeds is not None else "measured": {
            spec: asdict(own) for spec, own in costs.items()
        },
        "modelled": MODELLED,
        "plain_step_seconds": setting.plain.total_seconds,
        "operators": [
            {
                "spec": row.spec,
                "unbiased": row.unbiased,
                "axis": row.axis,
                "bits_per_value": row.bits_per_value,
                "step_seconds": row.step.total_seconds,
                **row.step._asdict(),
                "slowdown": row.slowdown,
                "seconds_per_progress": row.seconds_per_progress,
                "gain": row.gain,
                "break_even_bits_per_second": _finite(row.break_even_bits_per_second),
                "pays_below_bits_per_second": _finite(row.pays_below_bits_per_second),
            }
            for row in rows
        ],
        "compress": found is not None and setting.job.workers > 1,
        "advised": [row.spec for row in advised],
        "verdict": verdict(advised, setting),
    }


def _source(options: argparse.Namespace) -> str:
    what = f"bits a value on {UNIT:,} Gaussian values, codec speeds"
    if options.speeds is not None:
        return f"given in {options.speeds}: {what}"
    return f"measured on this machine: {what} (kept in {speeds.cache_path()}; renew: --measure)"


def _finite(value: float | None) -> float | str | None:
    """JSON has no infinity."""
    return "inf" if value == math.inf else value
