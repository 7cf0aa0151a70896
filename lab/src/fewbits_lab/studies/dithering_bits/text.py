"""Makes the text of docs about `dithering-bits`."""

from fewbits_lab import figures
from fewbits_lab.prose import paragraph, table
from fewbits_lab.results import results
from fewbits_lab.studies.dithering_bits import show
from fewbits_lab.studies.dithering_bits.run import DitheringBitsRow

_SHOWN = (2, 4, 6, 8, 10, 12)


def measured() -> list[DitheringBitsRow]:
    """The recorded rows."""
    return [DitheringBitsRow(**row) for row in results("dithering-bits")["rows"]]


def dithering_figure() -> str:
    """Packed and entropy coded, side by side."""
    return figures.svg(lambda: show.draw(measured()))


def dithering_verdict() -> str:
    """What is exponential, and what is not."""
    return paragraph(
        "**Natural dithering is exponentially better than standard dithering among codes of a "
        "fixed width, and only there.**",
        *show.findings(measured()),
        "So take natural dithering where the size must be known before the vector is, or where no "
        "time is left for a coder. With `coder=rans` choose by the error that you can afford: "
        "standard dithering goes on below natural compression's floor.",
    )


def dithering_table() -> str:
    """Both operators side by side, with p = 2."""
    own = {(row.operator, row.s): row for row in measured() if row.p == "2"}
    cells = []
    for s in _SHOWN:
        natural, standard = own["natural-dithering", s], own["standard-dithering", s]
        cells.append(
            [
                f"{natural.levels}", f"{standard.levels:,}", f"{natural.error:.3g}",
                f"{standard.error:.3g}", f"{natural.packed:.1f}", f"{standard.packed:.1f}",
                f"{natural.rans:.2f}", f"{standard.rans:.2f}",
            ]
        )  # fmt: skip
    titles = (
        "natural levels|standard levels|variance, natural|standard|packed bits, natural|standard|"
        "rANS bits, natural|standard"
    )
    return table(titles, cells)
