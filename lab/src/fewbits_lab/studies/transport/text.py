"""Makes the text of README and docs about `transport`."""

from fewbits_lab.results import results
from fewbits_lab.studies.transport import show
from fewbits_lab.tables import markdown


def transport_table() -> str:
    """Seconds of an exchange, by the way in which it is made."""
    return markdown(show.transport(results("transport")))
