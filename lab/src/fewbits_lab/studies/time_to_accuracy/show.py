"""Shows `time-to-accuracy`: tables, figures, findings and claims."""

from statistics import fmean
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import Item, RecordDocument, Recorded, standard_error
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def by_name(document: RecordDocument) -> dict[str, list[Item]]:
    """The runs of the race, by contender."""
    runs = [own for own in document["runs"] if own["part"] == "race"]
    names = dict.fromkeys(own["name"] for own in runs)
    return {name: [own for own in runs if own["name"] == name] for name in names}


def race(document: RecordDocument) -> ShownTable:
    """Seconds until the goal of the race."""
    rows, lost = [], set()
    plain = fmean(run["seconds"] for run in by_name(document)["none"])
    for number, (name, own) in enumerate(by_name(document).items()):
        seconds = [run["seconds"] for run in own]
        missed = sum(not run["reached"] for run in own)
        note = f", {missed} of {len(own)} did not arrive" if missed else ""
        steps = ", ".join(str(run["steps"]) for run in own)
        sent = fmean(run["interface_bytes"] for run in own) / 1e6
        rows.append([
            f"`{name}`", f"{own[0]['lr']}", f"{steps}{note}", f"{fmean(seconds):.1f}",
            f"{standard_error(seconds):.1f}", f"{sent:.1f}",
        ])  # fmt: skip
        if missed or fmean(seconds) > plain:
            lost.add(number)
    titles = ["contender", "rate", "steps", "seconds", "±", "MB of a rank"]
    return ShownTable(titles, rows, lost=frozenset(lost), title="Seconds until the goal")


def race_findings(document: RecordDocument) -> list[str]:
    """How many times sooner than plain, and who was first."""
    seconds = {name: fmean(run["seconds"] for run in own)
               for name, own in by_name(document).items()}  # fmt: skip
    first = min(seconds, key=lambda name: seconds[name])
    times = seconds["none"] / seconds[first]
    said = f"First at {100 * document['goal']:g} % accuracy: `{first}` after {seconds[first]:.1f} s"
    return [f"{said}, {times:.1f} times sooner than plain DDP."]


def draw_race(document: RecordDocument) -> "Figure":
    """Bars of seconds, a dot for each seed."""
    found = by_name(document)
    drawn, (plot,) = figures.panels(
        f"Seconds to {100 * document['goal']:g} % on MNIST, {document['ranks']} ranks, "
        f"{document['link_bits_per_second'] / 1e6:.0f} Mbit/s",
        height=1.6 + 0.38 * len(found), width=8.5,
    )  # fmt: skip
    for at, own in enumerate(found.values()):
        seconds = [run["seconds"] for run in own]
        colour = figures.GREY if own[0]["name"] == "none" else figures.BLUE
        plot.barh(at, fmean(seconds), 0.6, color=colour, alpha=0.75)
        plot.plot(seconds, [at] * len(seconds), "o", color="black", ms=3.5)
        plot.annotate(f"{fmean(seconds):.1f}", (max(seconds), at), (6, 0), va="center",
                      textcoords="offset points", fontsize=9)  # fmt: skip
    plot.margins(x=0.1)
    plot.set_xlabel("seconds, mean of the seeds; dots: single seeds")
    figures.names(plot, list(found))
    return drawn


TIME_TO_ACCURACY = Recorded(
    name="time-to-accuracy",
    result="time-to-accuracy",
    title="Time to 98 % on MNIST over 100 Mbit/s",
    about="A convolutional network on four ranks, links of 100 Mbit/s, until the test set says "
    "98 %. Learning rates come from one grid, tuned for each contender on its own seed; the race "
    "has three seeds. Clock and bytes are measured.",
    command="sudo python -m fewbits_lab.studies.time_to_accuracy.run race --data MNIST-DIR",
    tables=lambda document: [race(document)],
    draw=draw_race,
    findings=race_findings,
)
