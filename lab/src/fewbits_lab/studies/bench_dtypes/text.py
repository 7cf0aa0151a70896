"""Makes the text of README and docs about `bench-dtypes`."""

from typing import Any

from fewbits_lab.prose import code, one, paragraph, span, table
from fewbits_lab.results import results
from fewbits_lab.studies.bench_dtypes.show import DIRECTIONS, cells, ratio

_PLAIN = "float32"


def row(spec: str, dtype: str = _PLAIN) -> dict[str, Any]:
    """An operator on a dtype."""
    return one(results("bench-dtypes")["rows"], spec=spec, dtype=dtype)


def speeds(spec: str) -> list[str]:
    """Megabytes of float32 a second in both directions, and their speeds in times memcpy."""
    size = 4 * results("bench-dtypes")["elements"]
    return [
        f"{size / own['seconds_median'] / 1e6:,.0f} ({ratio(own['memcpy_ratio'])})"
        for own in (row(spec)[direction] for direction in DIRECTIONS)
    ]


def other_dtypes(spec: str) -> str:
    """The least and the largest speed on the other dtypes, in times memcpy."""
    found = [own for own in results("bench-dtypes")["rows"] if own["spec"] == spec]
    others = [own for own in found if own["dtype"] != _PLAIN]
    spans = []
    for direction in DIRECTIONS:
        values = sorted(own[direction]["memcpy_ratio"] for own in others)
        spans.append(f"{ratio(values[0])} to {ratio(values[-1])}")
    return "; ".join(spans)


def dtypes_table() -> str:
    """All operators on all dtypes, and what a second thread gains."""
    found = results("bench-dtypes")
    more = f"× by {found['threads']} threads"
    rows = [
        [code(own["spec"]), f"`{own['dtype']}`", f"{own['bits_per_value']:.2f}", *cells(own)]
        for own in found["rows"]
    ]
    titles = f"operator|dtype|bits a value|compress, × memcpy|{more}|decompress, × memcpy|{more}"
    return table(titles, rows)


def dtypes_note() -> str:
    """How the table was measured."""
    found = results("bench-dtypes")
    return paragraph(
        f"Whole calls with `out=` on {found['elements']:,} Gaussian values on an {found['machine']['cpu']} with the",
        f"{found['machine']['simd']} kernels, frame and checksum included, interleaved with memcpy of as many `float32` values",
        f"({found['memcpy_gigabytes_per_second']:.1f} GB/s), whatever the dtype. One thread by processor time, medians; beside it how many",
        f"times as fast {found['threads']} threads are, by the best wall times (memcpy: {found['memcpy_speedup']:.2f}).",
    )  # fmt: skip


def calls_table() -> str:
    """Microseconds of calls on few values."""
    names = ("compress", "compress_out", "decompress", "decompress_out")
    rows = [
        [code(own["spec"]), f"{own['elements']:,}", *(f"{own[name]:.1f}" for name in names)]
        for own in results("bench-dtypes")["small"]
    ]
    return table("operator|values|compress|with `out=`|decompress|with `out=`", rows)


def calls_verdict() -> str:
    """Beside torch's cast."""
    rows = results("bench-dtypes")["small"]
    casts = [own["cast"] for own in rows if own["cast"] is not None]
    return paragraph(
        "Microseconds of processor time for one call on `float32` values, the median, warm. Without `out=` the operator",
        "is given by the text of its spec and the result is new; with it the operator is an object. torch's cast to",
        f"`float16`, into a tensor that is there, takes {span(casts, 1)} µs.",
    )  # fmt: skip


def many_table() -> str:
    """Lists of tensors."""
    found = results("bench-dtypes")["many"]
    names = ("compress_single", "compress_many", "decompress_single", "decompress_many")
    rows = [[code(own["spec"]), *(f"{own[name]:.1f}" for name in names)] for own in found]
    return table("operator|`compress`|`compress_many`|`decompress`|`decompress_many`", rows)


def many_note() -> str:
    """What the list is."""
    first = results("bench-dtypes")["many"][0]
    return paragraph(
        f"A list of {first['tensors']} tensors of {first['elements']:,} values, in single calls and in one call;",
        "microseconds of processor time a tensor:",
    )


def small_calls() -> str:
    """README's sentence."""
    own = one(results("bench-dtypes")["small"], spec="natural", elements=10_000)
    cast = "" if own["cast"] is None else f"; torch's cast to `float16` takes {own['cast']:.1f} µs"
    return (
        f"a call on 10,000 values takes {own['compress']:.1f} µs to compress with `natural` and {own['decompress']:.1f} µs"
        f" to decompress{cast};"
    )
