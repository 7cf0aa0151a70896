"""`fewbits bench`: speeds on this machine."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

import fewbits
from fewbits.backend.parallel import available_threads
from fewbits.bench import codec, dtypes
from fewbits.bench.codec import CodecReport, CodecRow
from fewbits.bench.dtypes import DtypeReport, DtypeSpeed
from fewbits.bench.jobs import ENCODE, HALF_CAST, MEMCPY, compress_name, decompress_name
from fewbits.bench.timing import Plan
from fewbits.cli.console import Parser, ProgressBar, count, print_json, table

_ELEMENTS, _QUICK_ELEMENTS = 25_000_000, 8_000_000
_STEPS = 1000  # of the progress bar


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits bench --quick\n  fewbits bench --operators natural float16 --json")
    add = parser.add_argument
    add("--elements", type=count, metavar="N", help="float32 values "
        f"(default: {_ELEMENTS:.3g}, quick: {_QUICK_ELEMENTS:.3g})")  # fmt: skip
    add("--repeats", type=count, metavar="N",
        help="rounds (default: as many as fit half a minute)")  # fmt: skip
    add("--threads", type=count, nargs="+", metavar="N",
        default=sorted({1, min(2, available_threads())}),
        help="numbers of threads to compare (default: 1 2)")  # fmt: skip
    known = ", ".join(codec.default_specs())
    add("--operators", nargs="+", metavar="SPEC",
        help=f"specs, also with parameters; default: {known}")  # fmt: skip
    add("--all-dtypes", action="store_true", help="operators on float32, bfloat16, float16 and "
        "float64, one thread against the most, and calls on few values; minutes")  # fmt: skip
    add("--quick", action="store_true", help="a few seconds, rougher figures")


def run(options: argparse.Namespace) -> None:
    if options.all_dtypes:
        _run_dtypes(options)
        return
    operators = _operators(options) or codec.default_operators()
    plan = codec.QUICK if options.quick else codec.MANY
    if options.repeats:
        plan = Plan(rounds=options.repeats)
    with ProgressBar("measuring", _STEPS) as progress:
        report = codec.run(
            options.elements or (_QUICK_ELEMENTS if options.quick else _ELEMENTS),
            operators,
            sorted(set(options.threads)),
            plan,
            lambda part: progress.show(round(part * _STEPS)),
        )
    if options.json:
        print_json(asdict(report))
    else:
        _print(report)


def _operators(options: argparse.Namespace) -> list[fewbits.Operator]:
    return [fewbits.operator(spec) for spec in dict.fromkeys(options.operators or ())]


def _run_dtypes(options: argparse.Namespace) -> None:
    plan = dtypes.QUICK_EACH if options.quick else dtypes.EACH
    if options.repeats:
        plan = Plan(rounds=options.repeats)
    with ProgressBar("measuring", _STEPS) as progress:
        report = dtypes.run(
            options.elements or (dtypes.QUICK_ELEMENTS if options.quick else dtypes.DTYPE_ELEMENTS),
            _operators(options) or dtypes.default_specs(),
            max(options.threads),
            plan,
            lambda part: progress.show(round(part * _STEPS)),
        )
    if options.json:
        print_json(asdict(report))
    else:
        _print_dtypes(report)


def _print_dtypes(report: DtypeReport) -> None:
    print(report.machine)
    print(f"vectors   {report.elements:,} values; memcpy of as many float32 values: "
          f"{report.memcpy_gigabytes_per_second:.1f} GB/s\n")  # fmt: skip
    print(_dtype_table(report))
    gain = "" if report.memcpy_speedup is None else f" (memcpy: {report.memcpy_speedup:.2f})"
    print(
        "x memcpy: speed of one thread as a multiple, by processor time; "
        f"{report.threads} threads: wall speed as a multiple of one thread's{gain}\n"
    )
    titles = ("us a call", "values", "compress", "with out=", "decompress", "with out= ",
              "torch's cast")  # fmt: skip
    cells = [
        (row.spec, f"{row.elements:,}", f"{row.compress:.1f}", f"{row.compress_out:.1f}",
         f"{row.decompress:.1f}", f"{row.decompress_out:.1f}",
         "" if row.cast is None else f"{row.cast:.1f}")
        for row in report.small
    ]  # fmt: skip
    print(table(titles, cells, right=",".join(titles[1:])) + "\n")
    print(_many_table(report))


def _dtype_table(report: DtypeReport) -> str:
    def gain(speed: DtypeSpeed) -> str:
        return "" if speed.speedup is None else f"{speed.speedup:.2f}"

    more = f"{report.threads} threads"
    titles = ("operator", "dtype", "bits/value", "compress x memcpy", more, "decompress x memcpy",
              f"{more} ")  # fmt: skip
    cells = [
        (
            row.spec, row.dtype, f"{row.bits_per_value:.3f}", f"{row.compress.memcpy_ratio:.3g}",
            gain(row.compress), f"{row.decompress.memcpy_ratio:.3g}", gain(row.decompress),
        )
        for row in report.rows
    ]  # fmt: skip
    return table(titles, cells, right=",".join(titles[2:]))


def _many_table(report: DtypeReport) -> str:
    titles = ("us a tensor", "tensors", "compress", "compress_many", "decompress",
              "decompress_many")  # fmt: skip
    cells = [
        (row.spec, f"{row.tensors} x {row.elements:,}", f"{row.compress_single:.1f}",
         f"{row.compress_many:.1f}", f"{row.decompress_single:.1f}", f"{row.decompress_many:.1f}")
        for row in report.many
    ]  # fmt: skip
    return table(titles, cells, right=",".join(titles[1:]))


def _print(report: CodecReport) -> None:
    print(report.machine)
    print(f"vector    {report.elements:,} float32 values, {report.rounds} interleaved rounds\n")
    print(_speed_table(report.rows))
    print(
        "x: speed as a multiple, higher is faster (one thread: processor time; more: wall time);\n"
        "(out) fills warm memory, (new) takes fresh memory from the system and gives it back\n"
    )
    sizes = [
        (size.spec, f"{size.frame_bytes:,}", f"{size.overhead_bytes}", f"{size.bits_per_value:.3f}")
        for size in report.sizes
    ]
    titles = ("operator", "frame bytes", "overhead bytes", "bits/value")
    print(table(titles, sizes, right=",".join(titles[1:])) + "\n")
    print("\n".join(_conclusions(report)))


def _speed_table(rows: Sequence[CodecRow]) -> str:
    cells = [
        (
            row.name,
            str(row.threads),
            f"{row.seconds_median * 1e3:.2f}",
            f"{row.seconds_best * 1e3:.2f}",
            f"{row.cpu_median * 1e3:.2f}",
            f"{row.gigabytes_per_second:.1f}",
            f"{row.memcpy_ratio_median:.2f}",
            f"{row.memcpy_ratio_best:.2f}",
            "" if row.fp16_ratio_median is None else f"{row.fp16_ratio_median:.2f}",
        )
        for row in rows
    ]
    titles = (
        "job", "threads", "ms", "best ms", "cpu ms", "GB/s", "x memcpy", "x memcpy best", "x fp16",
    )  # fmt: skip
    return table(titles, cells, right=",".join(titles[1:]))


def _conclusions(report: CodecReport) -> list[str]:
    speeds = {row.name: row.memcpy_ratio_median for row in report.rows if row.threads == 1}
    compressing, decompressing = compress_name("natural"), decompress_name("natural")
    said = {
        ENCODE: "natural encodes at {:.2f}x the speed of memcpy (kernel alone)",
        compressing: "compress with natural, checksum included, runs at {:.2f}x memcpy",
        decompressing: "decompress of natural, checksum included, runs at {:.2f}x memcpy",
        HALF_CAST: "torch casts to float16 at {:.2f}x memcpy",
    }
    lines = [text.format(speeds[name]) for name, text in said.items() if name in speeds]
    for own in report.scaling:
        if own.name == MEMCPY:
            lines.append(f"{own.threads} threads copy memory {own.speedup:.2f}x as fast as one")
        else:
            lines.append(
                f"{own.threads} threads do {own.name} {own.speedup:.2f}x as fast as one: "
                f"{own.quotient:.2f} of memcpy's own gain"
            )
    return lines
