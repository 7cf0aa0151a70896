"""The tables of docs/feedback.md, from the results of `feedback.py` and `bias.py`.

`python benchmarks/feedback_table.py` prints them. `fewbits lab` shows the same ones.
"""

import json
from pathlib import Path

from fewbits.lab.recorded import feedback
from fewbits.lab.tables import markdown

RESULTS = Path(__file__).parent / "results"


def tables() -> list[str]:
    """All of them."""
    accuracy, search, cnn, bias = (
        json.loads((RESULTS / f"{name}.json").read_text())
        for name in ("feedback", "feedback-search", "feedback-cnn", "bias")
    )
    made = [feedback.accuracy(accuracy, data) for data in ("digits", "mnist")]
    made += [feedback.search(cnn), feedback.search(search)]
    return [markdown(own) for own in [*made, feedback.draws(bias), feedback.tail(bias)]]


if __name__ == "__main__":
    print("\n\n".join(tables()))
