"""Makes the text of README and docs about `methods`."""

from fewbits_lab.results import results
from fewbits_lab.studies.methods import show
from fewbits_lab.tables import markdown


def methods_table() -> str:
    """Bytes to 1e-4, and how far each run gets."""
    return markdown(show.by_method(results("methods-mushrooms")))
