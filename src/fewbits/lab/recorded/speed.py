"""Speeds: whole operators against memcpy, coders against others, top-k, the spherical search."""

from statistics import fmean
from typing import TYPE_CHECKING

from fewbits.lab import figures
from fewbits.lab.recorded.record import Document, Headline, Recorded
from fewbits.lab.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OTHERS = ("memcpy", "torch float16 cast", "crc32c")


def against_memcpy(document: Document) -> Table:
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
    return Table(
        titles, rows, lost=frozenset(lost), title=f"{document['elements']:,} float32 values",
        note="Medians of interleaved rounds, each against the memcpy of its own round. Marked: "
        "slower than a copy.",
    )  # fmt: skip


def draw_bench(document: Document) -> "Figure":
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


def headline(document: Document) -> Headline:
    """Whole calls, which is what a user waits for; a kernel alone is faster."""
    alone = [row for row in document["rows"] if row["threads"] == 1]
    ratios = {row["name"]: row["memcpy_ratio_median"] for row in alone}
    there, back = (ratios[f"{name}(out) natural"] for name in ("compress", "decompress"))
    return Headline(
        f"{there:.2f}× and {back:.2f}×",
        "the speed of memcpy: `compress` and `decompress` with `natural`, whole frames, one thread",
    )


def coders(document: Document) -> Table:
    """Means over the recorded gradients, by coder."""
    found = [own for own in document["coders"] if own["status"] == "measured"]
    kinds = {
        "recorded gradients": [own for own in found if "step" in own["input"]],
        "a Gaussian vector of 4,000,000": [own for own in found if "4,000,000" in own["input"]],
    }
    rows = []
    for text, group in kinds.items():
        for coder in dict.fromkeys(own["coder"] for own in group):
            own = [one for one in group if one["coder"] == coder]
            rows.append([
                text, coder, f"{fmean(one['bits_per_symbol'] for one in own):.3f}",
                f"{100 * (fmean(one['over_entropy'] for one in own) - 1):+.1f} %",
                f"{fmean(one['encode_gigasymbols'] for one in own):.3f}",
                f"{fmean(one['decode_gigasymbols'] for one in own):.3f}",
            ])  # fmt: skip
    titles = ["input", "coder", "bits an exponent", "over entropy", "encodes Gsymbols/s",
              "decodes Gsymbols/s"]  # fmt: skip
    return Table(titles, rows, title="Lossless coding of natural compression's exponents, means")


def draw_coding(document: Document) -> "Figure":
    """Bits against speed on recorded gradients: fewer bits and more speed are better."""
    drawn, plots = figures.panels(
        "Coding exponents of recorded gradients: bits against speed", 2, width=11, height=4.6
    )
    found = [own for own in document["coders"]
             if own["status"] == "measured" and "step" in own["input"]]  # fmt: skip
    names = list(dict.fromkeys(own["coder"] for own in found))
    colours = (*figures.COLOURS, figures.SKY, figures.GOLD)
    for plot, way in zip(plots, ("encode", "decode"), strict=True):
        for name, colour, marker in zip(names, colours, (*figures.MARKERS, "X", "*"), strict=False):
            own = [one for one in found if one["coder"] == name]
            plot.plot([one[f"{way}_gigasymbols"] for one in own],
                      [one["bits_per_symbol"] for one in own], marker, color=colour, ms=6,
                      mfc="none", mew=1.5, label=name)  # fmt: skip
        figures.log_x(plot)
        plot.set(title=f"{way}s", xlabel="billion symbols a second, one thread",
                 ylabel="bits an exponent")  # fmt: skip
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=7,
                 fontsize=8)  # fmt: skip
    return drawn


def selection(document: Document) -> Table:
    """CPU seconds of each way to select."""
    seconds = document["cpu_seconds"]
    rows = [
        [name, f"{1e3 * own:.1f}", f"{seconds['torch.topk'] / own:.1f}"]
        for name, own in seconds.items()
    ]
    titles = ["job", "ms of one thread", "times as fast as torch.topk"]
    note = f"The {document['k']:,} largest of {document['elements']:,}; `compress` has the frame."
    return Table(titles, rows, note=note)


def draw_selection(document: Document) -> "Figure":
    """Milliseconds, logarithmic."""
    seconds = document["cpu_seconds"]
    drawn, (plot,) = figures.panels("Selecting the largest 1 % of 25 million values", width=8,
                                    height=2.9)  # fmt: skip
    plot.barh(range(len(seconds)), [1e3 * own for own in seconds.values()], 0.6,
              color=figures.BLUE, alpha=0.8)  # fmt: skip
    figures.log_x(plot)
    plot.set(xlabel="ms of one thread, log scale")
    figures.names(plot, list(seconds))
    return drawn


def spherical(document: Document) -> Table:
    """Bits over the lower bound, errors, and speeds."""
    rows = [
        [
            f"{row['alpha']:g}", str(row["block"]), f"{row['lower_bound_bits']:.2f}",
            f"{row['index_bits']:.2f}", f"{row['excess']:.2f}", f"{row['largest_error']:.4f}",
            f"{row['mean_error']:.3f}", f"{row['blocks_per_second']:,.0f}",
            f"{row['faster_than_numpy']:.0f}",
        ]
        for row in document["rows"]
    ]  # fmt: skip
    titles = ["α", "block", "bound, bits", "index, bits", "excess", "largest error", "mean error",
              "blocks/s", "× NumPy"]  # fmt: skip
    return Table(titles, rows)


def draw_spherical(document: Document) -> "Figure":
    """Bits of the index and the bound, by (α, block)."""
    rows = document["rows"]
    drawn, (plot,) = figures.panels("Bits of an index over the lower bound", width=8, height=4)
    for at, row in enumerate(rows):
        plot.barh(at, row["index_bits"], 0.6, color=figures.BLUE, alpha=0.75)
        plot.plot([row["lower_bound_bits"]] * 2, [at - 0.38, at + 0.38], color="black", lw=2)
        plot.annotate(f"+{row['excess']:.2f}", (row["index_bits"], at), (4, 0), va="center",
                      textcoords="offset points", fontsize=9)  # fmt: skip
    plot.margins(x=0.1)
    plot.set_xlabel("bits of a block's index; line: no code can have fewer on average")
    figures.names(plot, [f"α = {row['alpha']:g}, block {row['block']}" for row in rows])
    return drawn


BENCH = Recorded(
    name="bench",
    file="bench.json",
    title="Speed of natural compression against memcpy and the float16 cast",
    about="Warm buffers, interleaved rounds. Kernels read the vector once; whole calls have the "
    "frame and its checksum.",
    command="fewbits bench --repeats 15 --json",
    tables=lambda document: [against_memcpy(document)],
    draw=draw_bench,
    headline=headline,
)
CODING = Recorded(
    name="coding",
    file="coding.json",
    title="Entropy coding against zstd, lz4, blosc2's bitshuffle and constriction",
    about="Exponents after natural compression of recorded gradients and of Gaussian vectors, one "
    "thread, round trips checked.",
    command="fewbits bench coding --gradients GRADIENTS-DIR --json",
    tables=lambda document: [coders(document)],
    draw=draw_coding,
)
TOP_K = Recorded(
    name="top-k",
    file="top-k.json",
    title="Selecting the largest magnitudes",
    about="One thread, interleaved, the best of several rounds; torch gets the magnitudes ready "
    "made and need not sort.",
    command="python benchmarks/top_k.py",
    tables=lambda document: [selection(document)],
    draw=draw_selection,
)
SPHERICAL = Recorded(
    name="spherical-speed",
    file="spherical.json",
    title="Spherical compression: bits over the bound, and the native search",
    about="Bits of the index as it is written, radii not counted; errors of decoded blocks of a "
    "Gaussian vector; CPU times of one thread.",
    command="python benchmarks/spherical.py",
    tables=lambda document: [spherical(document)],
    draw=draw_spherical,
)
