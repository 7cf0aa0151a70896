"""Time to an accuracy on a slow link, and the exchange itself by the way in which it is made."""

from statistics import fmean
from typing import TYPE_CHECKING, Any

from fewbits.lab import figures
from fewbits.lab.recorded.links import link
from fewbits.lab.recorded.record import Document, Recorded, standard_error
from fewbits.lab.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Run = dict[str, Any]


def by_name(document: Document) -> dict[str, list[Run]]:
    """The runs of the race, by contender."""
    runs = [own for own in document["runs"] if own["part"] == "race"]
    names = dict.fromkeys(own["name"] for own in runs)
    return {name: [own for own in runs if own["name"] == name] for name in names}


def race(document: Document) -> Table:
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
    return Table(titles, rows, lost=frozenset(lost), title="Seconds until the goal")


def race_findings(document: Document) -> list[str]:
    """How many times sooner than plain, and who was first."""
    seconds = {name: fmean(run["seconds"] for run in own)
               for name, own in by_name(document).items()}  # fmt: skip
    first = min(seconds, key=lambda name: seconds[name])
    times = seconds["none"] / seconds[first]
    said = f"First at {100 * document['goal']:g} % accuracy: `{first}` after {seconds[first]:.1f} s"
    return [f"{said}, {times:.1f} times sooner than plain DDP."]


def draw_race(document: Document) -> "Figure":
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


def transport(document: Document) -> Table:
    """Seconds of an exchange, by the way in which it is made."""
    names = list(document["links"][0]["seconds"])
    rows = [
        [link(own), *(f"{own['seconds'][name]:.4f}" for name in names)] for own in document["links"]
    ]
    return Table(["link", *names], rows, title="Seconds of an exchange")


def draw_transport(document: Document) -> "Figure":
    """Seconds against those of point to point."""
    names = list(document["links"][0]["seconds"])
    drawn, (plot,) = figures.panels(
        f"An exchange of {document['bytes'] / 1e6:g} MB on gloo, relative to point to point",
        width=8.5, height=4.2,
    )  # fmt: skip
    width = 0.8 / len(names)
    for place, (name, colour) in enumerate(zip(names, figures.COLOURS, strict=False)):
        at = [number + (place - 1.5) * width for number in range(len(document["links"]))]
        heights = [own["seconds"][name] / own["seconds"][names[0]] for own in document["links"]]
        plot.bar(at, heights, 0.9 * width, color=colour, label=name)
    labels = [link(own).replace(", ", "\n") for own in document["links"]]
    plot.set_xticks(range(len(labels)), labels, fontsize=9)
    plot.set_ylabel("times as long")
    plot.grid(visible=False, axis="x")
    drawn.legend(loc="outside lower left", ncols=4, fontsize=9)
    return drawn


RACE = Recorded(
    name="time-to-accuracy",
    file="time-to-accuracy.json",
    title="Time to 98 % on MNIST over 100 Mbit/s",
    about="A convolutional network on four ranks, links of 100 Mbit/s, until the test set says "
    "98 %. Learning rates come from one grid, tuned for each contender on its own seed; the race "
    "has three seeds. Clock and bytes are measured.",
    command="sudo python benchmarks/time_to_accuracy.py race --data MNIST-DIR",
    tables=lambda document: [race(document)],
    draw=draw_race,
    findings=race_findings,
)
TRANSPORT = Recorded(
    name="transport",
    file="transport.json",
    title="How ranks exchange bytes",
    about="The same bytes between the same ranks, sent in four ways; the median of several "
    "rounds. Measured. fewbits sends point to point, in pieces.",
    command="sudo python benchmarks/transport.py",
    tables=lambda document: [transport(document)],
    draw=draw_transport,
)
