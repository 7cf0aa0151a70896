"""The figure of the comparison: size over speed, a panel for each input."""

from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.coders.comparison import CodersReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(report: CodersReport) -> "Figure":
    """A coder is a line from its speed of encoding, a ring, to that of decoding, a dot."""
    columns = min(2, len(report.inputs))
    rows = -(-len(report.inputs) // columns)
    drawn, plots = figures.panels(
        "Entropy coders on the exponents of natural: size over speed", columns, rows,
        width=5.5 * columns, height=4 * rows + 1,
    )  # fmt: skip
    names = list(dict.fromkeys(row.coder for row in report.coders if row.bits_per_symbol))
    colours = dict(zip(names, (*figures.COLOURS, figures.SKY, figures.GOLD), strict=False))
    for plot, own in zip(plots, report.inputs, strict=False):
        for row in report.coders:
            if row.input != own.name or row.coder not in colours or row.bits_per_symbol is None:
                continue
            speeds = [row.encode_gigasymbols or 0.0, row.decode_gigasymbols or 0.0]
            colour, bits = colours[row.coder], row.bits_per_symbol
            plot.plot(speeds, [bits, bits], color=colour, label=row.coder)
            plot.plot(speeds[:1], [bits], "o", color=colour, mfc=figures.BACK)
            plot.plot(speeds[1:], [bits], "o", color=colour)
        figures.log_x(plot)
        plot.set(title=own.name, xlabel="Gsymbol/s (ring encodes, dot decodes)",
                 ylabel="bits a symbol")  # fmt: skip
        plot.set_ylim(bottom=0)
    for plot in plots[len(report.inputs) :]:
        plot.set_axis_off()
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=4)
    return drawn
