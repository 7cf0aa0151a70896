"""`fewbits-lab coders`: entropy coders compared on the exponents of `natural`."""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from fewbits.backend.parallel import available_threads
from fewbits.bench.timing import Plan
from fewbits.cli.console import Parser, ProgressBar, count, print_json, table
from fewbits.errors import SpecError
from fewbits_lab import figures
from fewbits_lab.coders import comparison as coding
from fewbits_lab.coders.comparison import CoderRow, CodersReport, Input, OperatorRow
from fewbits_lab.coders.figure import draw

_ELEMENTS, _QUICK_ELEMENTS = 4_000_000, 1_000_000
_STEPS = 1000  # of the progress bar
_INPUT_TITLES = ("input", "exponents", "distinct", "zeros", "entropy", "by blocks")
_CODER_TITLES = (
    "coder", "bits/symbol", "x entropy", "x by blocks", "encode Gsym/s", "decode Gsym/s",
)  # fmt: skip
_OPERATOR_TITLES = (
    "input", "operator", "job", "threads", "x smaller", "x memcpy", "x memcpy best", "GB/s",
)  # fmt: skip
_TEXT_COLUMNS = {"input", "coder", "operator", "job"}


def add_options(parser: Parser) -> None:
    parser.add_example(
        "fewbits-lab coders --quick\n  fewbits-lab coders --gradients gradients --plot coding.svg"
    )
    parser.add_argument(
        "--gradients",
        type=Path,
        metavar="DIR",
        help="vectors of fewbits_lab.recordings (default: a Gaussian vector alone)",
    )
    parser.add_argument(
        "--elements",
        type=count,
        metavar="N",
        help=f"values of the Gaussian vector (default: {_ELEMENTS:.3g}, "
        f"quick: {_QUICK_ELEMENTS:.3g}); one of {coding.CODER_SMALL:,} and "
        "two with many zeros are measured beside it",
    )
    parser.add_argument(
        "--repeats", type=count, metavar="N", help="rounds (default: what fits some seconds)"
    )
    parser.add_argument("--quick", action="store_true", help="a few seconds, rougher figures")
    parser.add_argument(
        "--plot", type=Path, metavar="OUT.svg", help="draw size against speed for each input"
    )


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    if options.plot is not None and not options.plot.parent.is_dir():
        raise SpecError(
            f"--plot: there is no folder {options.plot.parent}"
        )  # minutes too late else
    elements = options.elements or (_QUICK_ELEMENTS if options.quick else _ELEMENTS)
    sources = [coding.gaussian(size) for size in dict.fromkeys((elements, coding.CODER_SMALL))]
    sources += [coding.sparse(elements, percent) for percent in coding.CODER_ZEROS]
    if options.gradients is not None:
        sources += coding.recorded(options.gradients)
    plan = coding.CODER_QUICK if options.quick else coding.CODER_MANY
    if options.repeats:
        plan = Plan(rounds=options.repeats)
    threads = sorted({1, min(2, available_threads())})
    with ProgressBar("measuring", _STEPS) as progress:
        report = coding.run(
            sources, plan, threads, lambda part: progress.show(round(part * _STEPS))
        )
    if options.plot is not None:
        options.plot.write_text(figures.svg(lambda: draw(report)), encoding="utf-8")
    if options.json:
        print_json(asdict(report))
        return
    print("\n".join(_lines(report)))
    if options.gradients is None:
        print("\nreal gradients: python -m fewbits_lab.recordings, then --gradients gradients")


def _lines(report: CodersReport) -> Iterator[str]:
    yield f"{report.machine}\n"
    yield _table(_INPUT_TITLES, [_input_cells(own) for own in report.inputs])
    yield "entropy: bits for one exponent, of the whole message and of blocks of 65,536\n"
    for own in report.inputs:
        rows = [row for row in report.coders if row.input == own.name]
        rounds = max((row.rounds or 0 for row in rows), default=0)
        yield f"{own.name} ({rounds} interleaved rounds)"
        yield _table(_CODER_TITLES, [_coder_cells(row) for row in rows]) + "\n"
    yield _table(_OPERATOR_TITLES, [_operator_cells(row) for row in report.operators])
    yield (
        "coders: exponents only, one thread, best processor time; operators: signs, header and\n"
        "checksum included, x memcpy is speed as a multiple, higher is faster (one thread:\n"
        "processor time; more: wall time)"
    )


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return table(titles, rows, right=",".join(set(titles) - _TEXT_COLUMNS))


def _input_cells(own: Input) -> tuple[str, ...]:
    return (
        own.name, f"{own.elements:,}", str(own.distinct), f"{own.zeros:.1%}",
        f"{own.entropy:.4f}", f"{own.block_entropy:.4f}",
    )  # fmt: skip


def _coder_cells(row: CoderRow) -> tuple[str, ...]:
    if row.status != coding.MEASURED:
        return row.coder, row.status, "", "", "", ""
    return (
        row.coder,
        _number(row.bits_per_symbol, 4),
        _number(row.over_entropy, 4),
        _number(row.over_block_entropy, 4),
        _number(row.encode_gigasymbols, 3),
        _number(row.decode_gigasymbols, 3),
    )


def _operator_cells(row: OperatorRow) -> tuple[str, ...]:
    return (
        row.input, row.spec, row.job, str(row.threads), f"{row.ratio:.2f}",
        f"{row.memcpy_ratio_median:.2f}", f"{row.memcpy_ratio_best:.2f}",
        f"{row.gigabytes_per_second:.1f}",
    )  # fmt: skip


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
