"""Makes the text of docs about `time-saved`."""

from fewbits_lab import figures
from fewbits_lab.prose import bullets
from fewbits_lab.results import results
from fewbits_lab.studies.time_saved import show
from fewbits_lab.studies.time_saved.run import TimeSavedRow


def measured() -> list[TimeSavedRow]:
    """The recorded rows."""
    return [TimeSavedRow(**row) for row in results("time-saved")["rows"]]


def saved_figure() -> str:
    """Share of communication against time saved."""
    return figures.svg(lambda: show.draw(measured()))


def saved_verdict() -> str:
    """What the paper's savings need, and what was measured."""
    return bullets(*show.findings(measured()))
