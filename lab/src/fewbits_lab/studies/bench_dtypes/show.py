"""Shows `bench-dtypes`: tables and a figure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import Item, RecordDocument, Recorded
from fewbits_lab.studies.bench_dtypes.run import DTYPES_COMMAND
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIRECTIONS = ("compress", "decompress")
_COLOURS = {
    "float32": figures.BLUE,
    "bfloat16": figures.ORANGE,
    "float16": figures.GREEN,
    "float64": figures.GREY,
}


def ratio(value: float) -> str:
    """Two digits, whatever the size."""
    return f"{value:.2f}" if value > 0.1 else f"{value:.2g}"


def cells(row: Item) -> Iterator[str]:
    """The speeds of both directions, and what more threads gain."""
    for direction in DIRECTIONS:
        own = row[direction]
        yield ratio(own["memcpy_ratio"])
        yield "" if own["speedup"] is None else f"{own['speedup']:.2f}"


def by_dtype(document: RecordDocument) -> ShownTable:
    """A row for each operator and dtype."""
    rows = [
        [f"`{row['spec']}`", row["dtype"], f"{row['bits_per_value']:.2f}", *cells(row)]
        for row in document["rows"]
    ]
    lost = {
        (number, column)
        for number, row in enumerate(document["rows"])
        for column, direction in ((3, "compress"), (5, "decompress"))
        if row[direction]["memcpy_ratio"] < 1
    }
    more = f"{document['threads']} threads"
    titles = ["operator", "dtype", "bits a value"]
    titles += [title for what in DIRECTIONS for title in (f"{what}, × memcpy", f"× by {more}")]
    return ShownTable(
        titles, rows, lost_cells=frozenset(lost), title=f"{document['elements']:,} values",
        note="Whole calls with `out=`; one thread, processor time, against memcpy of as many "
        "float32 values. Beside it: how many times as fast more threads are, by the best wall "
        "times. Marked: slower than a copy.",
    )  # fmt: skip


def few_values(document: RecordDocument) -> ShownTable:
    """Microseconds of single calls."""
    names = ("compress", "compress_out", "decompress", "decompress_out")
    rows = [
        [f"`{row['spec']}`", f"{row['elements']:,}", *(f"{row[name]:.1f}" for name in names),
         "" if row["cast"] is None else f"{row['cast']:.1f}"]
        for row in document["small"]
    ]  # fmt: skip
    titles = ["operator", "values", "compress", "with `out=`", "decompress", "with `out=`",
              "torch's cast"]  # fmt: skip
    return ShownTable(
        titles, rows, title="Calls on few values",
        note="Microseconds of processor time for a call on float32 values, the median, warm. With "
        "`out=` the operator is an object, without it the text of its spec.",
    )  # fmt: skip


def lists(document: RecordDocument) -> ShownTable:
    """Microseconds a tensor, in single calls and in one."""
    names = ("compress_single", "compress_many", "decompress_single", "decompress_many")
    rows = [
        [f"`{row['spec']}`", *(f"{row[name]:.1f}" for name in names)] for row in document["many"]
    ]
    first = document["many"][0]
    titles = ["operator", "`compress`", "`compress_many`", "`decompress`", "`decompress_many`"]
    return ShownTable(
        titles, rows, title=f"{first['tensors']} tensors of {first['elements']:,} values",
        note="Microseconds of processor time a tensor: single calls, and one call for all.",
    )  # fmt: skip


def draw_dtypes(document: RecordDocument) -> "Figure":
    """Times memcpy's speed, one thread."""
    specs = list(dict.fromkeys(row["spec"] for row in document["rows"]))
    drawn, plots = figures.panels(
        "Speed against memcpy of as many float32 values, one thread (log scale)", 2, width=11.5,
        height=1.5 + 0.45 * len(specs),
    )  # fmt: skip
    for plot, direction in zip(plots, DIRECTIONS, strict=True):
        for number, (dtype, colour) in enumerate(_COLOURS.items()):
            own = [row for row in document["rows"] if row["dtype"] == dtype]
            places = [specs.index(row["spec"]) + 0.2 * (number - 1.5) for row in own]
            widths = [row[direction]["memcpy_ratio"] for row in own]
            plot.barh(places, widths, 0.2, color=colour, label=dtype)
        plot.axvline(1, color="black", lw=1, ls=":")
        plot.set_xscale("log")
        plot.set_title(direction, fontsize=10)
        figures.names(plot, specs)
    plots[1].set_yticklabels([])
    # A place that is named: to search the best one takes long beside so many bars.
    handles = plots[0].get_legend_handles_labels()
    drawn.legend(*handles, loc="outside lower left", ncols=4, fontsize=8)
    return drawn


BENCH_DTYPES = Recorded(
    name="bench-dtypes",
    result="bench-dtypes",
    title="Speed of every operator on every dtype, and of calls on few values",
    about="Whole calls in warm memory, frame and checksum included, in rounds with memcpy.",
    command=DTYPES_COMMAND,
    tables=lambda document: [by_dtype(document), few_values(document), lists(document)],
    draw=draw_dtypes,
)
