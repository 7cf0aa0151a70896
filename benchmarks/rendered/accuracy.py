"""What README says of accuracy, from single runs of `accuracy.py` and `feedback.py`."""

from statistics import fmean

from benchmarks.rendered.blocks import paragraph, results, span, table

from fewbits.lab.recorded import feedback
from fewbits.lab.recorded.training import paired_points
from fewbits.lab.training import paired
from fewbits.lab.training.paired import Difference

DATA = {"digits": "digits", "mnist": "MNIST"}
_TOLD = {True: "is lower than", False: "is higher than"}


def natural(data: str) -> Difference:
    """Both ways, less plain DDP, in points."""
    own = results("accuracy")[data]
    return paired_points(own["compressed"], own["plain"])


def preset(data: str) -> Difference:
    """`tiny` less plain training, each at its best rate, in points."""
    runs = [run for run in results("feedback")["runs"] if run["data"] == data]
    both = [feedback.best([r for r in runs if r["name"] == name]) for name in ("top-k", "plain")]
    if len({tuple(run["seed"] for run in own) for own in both}) != 1:
        raise LookupError(f"{data}: other seeds than plain training")
    return paired_points(*([run["accuracy"] for run in own] for own in both))


def differences(of: dict[str, Difference]) -> str:
    """`+0.06 ± 0.45 points on digits and …`, and what that is."""
    said = " and ".join(f"{own.mean:+.2f} ± {own.half:.2f} on {DATA[d]}" for d, own in of.items())
    seeds = span((own.seeds for own in of.values()), 0)
    return f"{said} (points, 95 %, {seeds} paired seeds)"


def fewer_bytes() -> str:
    """In training, both ways."""
    return span((results("accuracy")[name]["times_fewer_bytes"] for name in DATA), 1)


def told_apart(of: dict[str, Difference]) -> str:
    """Whether the seeds tell accuracies apart, and the differences that they exclude."""
    known = {DATA[data]: paired.lower(own) for data, own in of.items()}
    told = [f"on {name} accuracy {_TOLD[way]} plain DDP's" for name, way in known.items()
            if way is not None]  # fmt: skip
    unknown = " and ".join(name for name, way in known.items() if way is None)
    if unknown:
        told.append(f"on {unknown} the seeds do not tell the accuracy from plain DDP's")
    largest = " and ".join(
        f"{max(-own.low, own.high):.2f} points on {DATA[data]}" for data, own in of.items()
    )
    text = f"{'; '.join(told)}. What the seeds exclude, at 95 %, are differences of more than {largest}."
    return text[0].upper() + text[1:]


def accuracy() -> str:
    """The claim above the table."""
    found = results("accuracy")["digits"]
    of = {data: natural(data) for data in DATA}
    return paragraph(
        f"{fewer_bytes()} times fewer bytes with `natural` both ways ({found['workers']} ranks, runs paired over",
        f"{span((own.seeds for own in of.values()), 0)} seeds, settings fixed beforehand; `benchmarks/accuracy.py`).",
        told_apart(of),
        "± is half the width of Student's 95 % interval of the mean difference:",
    )  # fmt: skip


def accuracy_table() -> str:
    """Plain beside compressed."""
    rows = []
    for name, title in DATA.items():
        own, gap = results("accuracy")[name], natural(name)
        means = [f"{100 * fmean(own[key]):.2f} %" for key in ("plain", "compressed")]
        rows.append(
            [f"{title}, CNN", str(own["epochs"]), *means, f"{gap.mean:+.2f} ± {gap.half:.2f}"]
        )
    return table("data|epochs|plain DDP|`natural` both ways|difference in points, 95 %", rows)


def tiny() -> str:
    """The preset, against plain training."""
    own = [feedback.summaries(results("feedback"), data)["top-k"] for data in DATA]
    bits = span((one.bits or 0.0 for one in own), 2)
    return paragraph(
        f"With error feedback, `fewbits.ddp.attach(model, \"tiny\")` sends {bits} bits for each compressed value. Its accuracy",
        f"less that of plain training, each at its best rate: {differences({data: preset(data) for data in DATA})}.",
        "[The evidence](docs/feedback.md) also says how it is saved and resumed bit for bit, and where it falls behind.",
        "`attach(model, \"auto\")` tries what there is and goes on with the fastest.",
    )  # fmt: skip
