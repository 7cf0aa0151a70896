"""Shows `bench`: tables, figures, findings and claims."""

from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import Headline, RecordDocument, Recorded
from fewbits_lab.studies.bench.run import COMMAND
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_OTHERS = ("memcpy", "torch float16 cast", "crc32c")


def against_memcpy(document: RecordDocument) -> ShownTable:
    """One row for each job; lost where it is slower than a copy."""
    rows, lost = [], set()
    for number, row in enumerate(document["rows"]):
        rows.append([
            row["name"], str(row["threads"]), f"{1e3 * row['seconds_median']:.1f}",
            f"{row['gigabytes_per_second']:.1f}", f"{row['memcpy_ratio_median']:.2f}",
            f"{row['fp16_ratio_median']:.2f}" if row.get("fp16_ratio_median") else "",
        ])  # fmt: skip
        if row["memcpy_ratio_median"] < 1:
            lost.add(number)
    titles = ["job", "threads", "ms", "GB/s of input", "× memcpy", "× float16 cast"]
    return ShownTable(
        titles, rows, lost=frozenset(lost), title=f"{document['elements']:,} float32 values",
        note="Medians of interleaved rounds, each against the memcpy of its own round. Marked: "
        "slower than a copy.",
    )  # fmt: skip


def draw_bench(document: RecordDocument) -> "Figure":
    """Times memcpy's speed, one thread."""
    rows = [row for row in document["rows"] if row["threads"] == 1]
    drawn, (plot,) = figures.panels(
        "Speed against memcpy of the same vector, one thread", width=9,
        height=1.5 + 0.32 * len(rows),
    )  # fmt: skip
    for at, row in enumerate(rows):
        ratio = row["memcpy_ratio_median"]
        colour = figures.GREY if row["name"] in _OTHERS else figures.BLUE
        plot.barh(at, ratio, 0.65, color=colour, alpha=0.8)
        plot.annotate(f"{ratio:.2f}", (ratio, at), (4, 0), textcoords="offset points", va="center",
                      fontsize=9)  # fmt: skip
    plot.axvline(1, color="black", lw=1, ls=":")
    plot.set_xlabel("times as fast as memcpy (below 1: slower)")
    plot.margins(x=0.1)
    figures.names(plot, [row["name"] for row in rows])
    return drawn


def headline(document: RecordDocument) -> Headline:
    """Whole calls, which is what a user waits for; a kernel alone is faster."""
    alone = [row for row in document["rows"] if row["threads"] == 1]
    ratios = {row["name"]: row["memcpy_ratio_median"] for row in alone}
    there, back = (ratios[f"{name}(out) natural"] for name in ("compress", "decompress"))
    return Headline(
        f"{there:.2f}× and {back:.2f}×",
        "the speed of memcpy: `compress` and `decompress` with `natural`, whole frames, one thread",
    )


BENCH = Recorded(
    name="bench",
    result="bench",
    title="Speed of natural compression against memcpy and the float16 cast",
    about="Warm buffers, interleaved rounds. Kernels read the vector once; whole calls have the "
    "frame and its checksum.",
    command=COMMAND,
    tables=lambda document: [against_memcpy(document)],
    draw=draw_bench,
    headline=headline,
)
