"""Makes the text of docs about `theorems`."""

from fewbits_lab.prose import code, paragraph, table
from fewbits_lab.results import results
from fewbits_lab.studies.theorems import show
from fewbits_lab.studies.theorems.levels import EQUAL
from fewbits_lab.studies.theorems.rows import TheoremRow

_SHOWN_LEVELS = ("4 ", "8 ", "9 ", "10 ", "12 ")  # of Theorem 8's rows


def measured() -> list[TheoremRow]:
    """The recorded rows."""
    return [TheoremRow(**row) for row in results("theorems")["rows"]]


def theorems_verdict() -> str:
    """How many rows hold."""
    return paragraph(*show.findings(measured()))


def theorems_table() -> str:
    """Every theorem: claimed, formula, measured, verdict."""
    cells = [
        [row.where, _subject(row), _cell(row.claimed), _number(row.formula), _number(row.measured),
         row.verdict]
        for row in measured()
        if _shown(row)
    ]  # fmt: skip
    return table("where|what, operator, vector|claimed|formula|measured|verdict", cells)


def _subject(row: TheoremRow) -> str:
    of = "; ".join(map(code, row.operator.split(" / ")))
    return f"{_cell(row.statement)}; {of}, {_cell(row.vector)}, d = {row.d:,}"


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")


def _shown(row: TheoremRow) -> bool:
    """All but most of the levels of Theorem 8, which the page of results has."""
    if row.where not in ("Theorem 8", EQUAL) or " natural levels over" not in row.statement:
        return True
    return row.statement.removeprefix("1 + ").removeprefix("ω of ").startswith(_SHOWN_LEVELS)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
