"""Shows `coding`: tables, figures, findings and claims."""

from statistics import fmean
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import RecordDocument, Recorded
from fewbits_lab.studies.coding.run import CODING_COMMAND
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def coders(document: RecordDocument) -> ShownTable:
    """Means over the recorded gradients, by coder."""
    found = [own for own in document["coders"] if own["status"] == "measured"]
    kinds = {
        "recorded gradients": [own for own in found if "step" in own["input"]],
        "a Gaussian vector of 4,000,000": [
            own for own in found if own["input"] == "gaussian 4,000,000"
        ],
        **{
            name: [own for own in found if own["input"] == name]
            for name in dict.fromkeys(own["input"] for own in found)
            if name.startswith("sparse")
        },
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
    return ShownTable(
        titles, rows, title="Lossless coding of natural compression's exponents, means"
    )


def draw_coding(document: RecordDocument) -> "Figure":
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


CODING = Recorded(
    name="coding",
    result="coding",
    title="Entropy coding against zstd, lz4, blosc2's bitshuffle and constriction",
    about="Exponents after natural compression of recorded gradients and of Gaussian vectors, one "
    "thread, round trips checked.",
    command=CODING_COMMAND,
    tables=lambda document: [coders(document)],
    draw=draw_coding,
)
