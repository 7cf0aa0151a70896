"""`fewbits-lab link`: what compression does to a step on links of a known speed."""

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

from fewbits.bench.machine import Machine
from fewbits.cli.console import Parser, ProgressBar, about, count, print_json, say, table
from fewbits.theory import quantities
from fewbits.train.extras import check_installed
from fewbits_lab.links import names, setting, steps, tools
from fewbits_lab.links.laboratory import LINK_MEASURED, Laboratory
from fewbits_lab.links.setting import LinkSetting, ShapedLink
from fewbits_lab.links.store import LinkStore, document

PLOT = "steps.svg"
_RANKS, _RATES, _PARAMS, _REPEATS = [2, 4], ["100Mbit", "1Gbit", "10Gbit", "none"], 10_000_000, 7
_QUICK_RANKS, _QUICK_RATES, _QUICK_PARAMS, _QUICK_REPEATS = [2], ["1Gbit", "100Mbit"], 1_000_000, 3
_WARM_UP = 4  # DDP arranges its buckets, PowerSGD begins, lengths of messages become known
_TITLES = (
    "contender", "step s", "quartiles", "x plain [95 %]", "x cast [95 %]", "plan s", "codec s",
    "wire s", "cpu s", "MB sent", "MB report", "replicas",
)  # fmt: skip
_STYLES = {
    names.LINK_PLAIN: "plain",
    names.HOOK: "torch",
    names.CHAINED: "torch",
    names.OURS: "fewbits",
    names.LINK_SILENT: "silent",
}

_Result = dict[str, Any]


def add_options(parser: Parser) -> None:
    parser.add_example(
        "fewbits-lab link --quick\n  fewbits-lab link --ranks 2 4 --rate 100Mbit 1Gbit --out links"
    )
    add = parser.add_argument
    add("--ranks", type=count, nargs="+", metavar="N", help="default: 2 4, quick: 2")
    add(
        "--rate",
        nargs="+",
        metavar="RATE",
        help=f"of every link, each way (default: {' '.join(_RATES)}, "
        f"quick: {' '.join(_QUICK_RATES)})",
    )
    add("--latency", default="0ms", metavar="TIME", help="one way, rank to rank (default: 0ms)")
    add("--loss", default="0", metavar="SHARE", help="of packets, 0.001 or 0.1%% (default: 0)")
    add(
        "--params",
        type=count,
        metavar="N",
        help=f"of the model (default: {_PARAMS:.3g}, quick: {_QUICK_PARAMS:.3g})",
    )
    add(
        "--repeats",
        type=count,
        metavar="N",
        help=f"timed steps of each contender (default: {_REPEATS}, quick: {_QUICK_REPEATS})",
    )
    add(
        "--warm-up",
        type=count,
        default=_WARM_UP,
        metavar="N",
        help=f"steps of each contender before (default: {_WARM_UP})",
    )
    add(
        "--contender",
        nargs="+",
        metavar="SPEC",
        default=list(names.DEFAULT),
        help="none, fp16-hook, powersgd:rank=N, quantization-hook, compute, auto, natural@switch, "
        "or a spec or preset of fewbits; none and compute always run "
        f"(default: {' '.join(names.DEFAULT)})",
    )
    add("--out", type=Path, metavar="DIR", help=f"keep results.json and {PLOT} in this folder")
    add("--again", action="store_true", help="also measure what DIR has already")
    add("--quick", action="store_true", help="2 ranks, 1 M parameters, 3 repeats")


def run(options: argparse.Namespace) -> None:
    """Measure, keep and print."""
    wanted = _settings(options)
    with about("--contender"):
        contenders = names.chosen(options.contender)
    tools.check_ready()
    check_installed("torch")
    with about("--out"):
        store = LinkStore(options.out)
    laboratory, results = Laboratory(contenders), []
    for own in wanted:
        found = None if options.again else store.find(own, contenders)
        if found is None:
            with _signals_end_the_program():
                found = _measure(laboratory, own)
            store.add(found)
            _draw(options.out, store.results)
        results.append(found)
        if not options.json:
            _print(found, own, first=len(results) == 1)
    if options.json:
        print_json(document(results))
    elif options.out is not None:
        print(f"\nresults: {store.path}, picture: {options.out / PLOT}")


def _settings(options: argparse.Namespace) -> list[LinkSetting]:
    quick = options.quick
    ranks = options.ranks or (_QUICK_RANKS if quick else _RANKS)
    with about("--rate"):
        texts = options.rate or (_QUICK_RATES if quick else _RATES)
        rates = [quantities.link_rate(text) for text in texts]
    with about("--latency"):
        latency = setting.latency(options.latency)
    with about("--loss"):
        loss = setting.loss(options.loss)
    params = options.params or (_QUICK_PARAMS if quick else _PARAMS)
    repeats = options.repeats or (_QUICK_REPEATS if quick else _REPEATS)
    with about("--ranks"):
        found = [
            LinkSetting(params, number, ShapedLink(rate, latency, loss), repeats, options.warm_up)
            for rate, number in product(rates, ranks)
        ]
    return list(dict.fromkeys(found))


def _measure(laboratory: Laboratory, own: LinkSetting) -> _Result:
    total = len(laboratory.contenders) * (own.repeats + own.warm_up)
    with ProgressBar(str(own), total) as progress:
        return laboratory.measure(own, lambda: progress.advance(1))


@contextmanager
def _signals_end_the_program() -> Iterator[None]:
    """SIGTERM and SIGHUP leave through the exits that clean up, as Ctrl-C does."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _draw(folder: Path | None, results: Sequence[_Result]) -> None:
    if folder is None:
        return
    by_link = sorted(results, key=lambda own: (own["rate_bits_per_second"] or 1e99, own["ranks"]))
    one_size = len({own["params"] for own in results}) == 1
    panels = []
    for own in by_link:
        size = "" if one_size else f", {own['params'] / 1e6:.3g} M parameters"
        panels.append(steps.StepPanel(_title(own) + size, [_bar(row) for row in own["contenders"]]))
    head = "Steps of data-parallel training on shaped links"
    if one_size:
        head += f", {results[0]['params'] / 1e6:.3g} M parameters"
    (folder / PLOT).write_text(steps.figure(head, panels), encoding="utf-8")


def _title(own: _Result) -> str:
    link = ShapedLink(own["rate_bits_per_second"], own["latency_seconds"], own["loss"])
    return f"{link}, {own['ranks']} ranks"


def _bar(row: _Result) -> steps.StepBar:
    style = _STYLES[row["kind"]]
    if row["status"] != LINK_MEASURED:
        return steps.StepBar(row["contender"], style, None, note=row["status"])
    seconds = row["step_seconds"]
    times = row["times_plain"]["value"] if row["times_plain"] else None
    spread = seconds["median"], seconds["low"], seconds["high"]
    return steps.StepBar(row["contender"], style, spread, times)


def _print(own: _Result, asked: LinkSetting, *, first: bool) -> None:
    if first:
        print(Machine(**own["machine"]))
    print(
        f"\n{asked}: {own['params'] / 1e6:.3g} M parameters, {own['repeats']} interleaved repeats, "
        f"load {own['load_average']:g} at the start\nlinks: {own['shaping']['text']}"
    )
    cells = [_cells(row) for row in own["contenders"]]
    print(table(_TITLES, cells, right=",".join(_TITLES[1:-1])))
    for row in own["contenders"]:
        if row["status"] != LINK_MEASURED:
            print(f"{row['contender']} did not run: {row['status']}")
        if row.get("replicas_agree") is False:
            say(f"warning: {row['contender']}: the ranks' parameters differ")
    print(
        "step: the slowest rank's; x: times as fast; cast: "
        f"{own['better_cast'] or 'none ran'}; MB: the busiest rank's interface, a step",
        flush=True,  # the next table may be minutes away
    )


def _cells(row: _Result) -> tuple[str, ...]:
    if row["status"] != LINK_MEASURED:
        return row["contender"], "-", *[""] * (len(_TITLES) - 2)
    seconds, agree = row["step_seconds"], row["replicas_agree"]
    return (
        row["contender"],
        f"{seconds['median']:.3f}",
        f"{seconds['low']:.3f}-{seconds['high']:.3f}",
        _times(row["times_plain"]),
        _times(row["times_cast"]),
        _number(row.get("planned_seconds"), 1),
        _number(row["codec_seconds"], 1),
        _number(row["wire_seconds"], 1),
        _number(row["cpu_seconds"], 1),
        f"{row['interface_bytes']['busiest'] / 1e6:.3f}",
        _number((row["reported_bytes"] or {}).get("busiest"), 1e6),
        "" if agree is None else ("equal" if agree else "DIFFER"),
    )


def _times(ratio: dict[str, float] | None) -> str:
    return "{value:.2f} [{low:.2f}, {high:.2f}]".format(**ratio) if ratio else ""


def _number(value: float | None, unit: float) -> str:
    return "" if value is None else f"{value / unit:.3f}"
