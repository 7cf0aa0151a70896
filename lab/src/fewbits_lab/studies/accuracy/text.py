"""Makes the text of README and docs about `accuracy`."""

from statistics import fmean

from fewbits_lab.prose import paragraph, span, table
from fewbits_lab.results import results
from fewbits_lab.studies.accuracy.show import paired_points
from fewbits_lab.training import paired
from fewbits_lab.training.paired import Difference


def on_the_switch() -> str:
    """MNIST on the switch."""
    own = results("accuracy")["mnist, switch"]
    plain, switched = (
        ", ".join(f"{100 * one:.2f}" for one in own[key]) for key in ("plain", "compressed")
    )
    return paragraph(
        f"{own['workers']} ranks trained on MNIST for one epoch with {len(own['plain'])} seeds, each pair with the same start and order",
        f"(`fewbits_lab.studies.accuracy.run --collective switch`). Plain training reached {plain} %, the switch {switched} %. The mean",
        f"difference is {own['mean_difference_points']:+.2f} points with a standard error of {own['standard_error_points']:.2f}.",
    )  # fmt: skip


DATA = {"digits": "digits", "mnist": "MNIST"}
_TOLD = {True: "is lower than", False: "is higher than"}


def natural(data: str) -> Difference:
    """The accuracy with `natural` in both directions minus plain DDP's, in points."""
    own = results("accuracy")[data]
    return paired_points(own["compressed"], own["plain"])


def fewer_bytes() -> str:
    """How many times fewer bytes training sends, in both directions."""
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
    text = f"{'; '.join(told)}. At 95 % the seeds exclude differences of more than {largest}."
    return text[0].upper() + text[1:]


def claim() -> str:
    """The claim above the table."""
    found = results("accuracy")["digits"]
    of = {data: natural(data) for data in DATA}
    return paragraph(
        f"{fewer_bytes()} times fewer bytes with `natural` both ways ({found['workers']} ranks, runs paired over",
        f"{span((own.seeds for own in of.values()), 0)} seeds, settings fixed beforehand; `fewbits_lab.studies.accuracy.run`).",
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
