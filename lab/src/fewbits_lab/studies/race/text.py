"""Makes the text of docs about `race`."""

from fewbits_lab.prose import paragraph
from fewbits_lab.results import results
from fewbits_lab.studies.links import show as links_show
from fewbits_lab.studies.race import show
from fewbits_lab.studies.race.links import LOW_RANK_8, POWERSGD_1, POWERSGD_4
from fewbits_lab.tables import markdown


def links_table() -> str:
    """Steps on links."""
    return markdown(show.link_steps(results("race-links")))


def links_said() -> str:
    """Whether low rank is ahead, link by link."""
    found = []
    every = links_show.settings(results("race-links"))
    for own in every:
        four, one = (show.against(own, LOW_RANK_8, name) for name in (POWERSGD_4, POWERSGD_1))
        found.append(
            f"{links_show.link(own)}: `low-rank` is {four} times as fast as PowerSGD-4, {one} times "
            f"as fast as PowerSGD-1, and sends {show.fewer(own, LOW_RANK_8, POWERSGD_4):.1f} times "
            "fewer bytes than PowerSGD-4."
        )
    return paragraph(
        f"Steps of the link laboratory's model, {every[0]['params'] / 1e6:.0f} million parameters,",
        f"took turns, {' and '.join(str(own['repeats']) for own in every)} of each; computing alone takes",
        " and ".join(f"{1e3 * own['compute_seconds']:.0f} ms" for own in every) + ",",
        f"the load average at the start was {' and '.join(str(own['load_average']) for own in every)}.",
        *found,
        "Intervals hold the ratio in 95 of 100 cases. Bytes are those of a rank's interface, with",
        "headers of packets and acknowledgements.",
    )  # fmt: skip


def steps_said() -> str:
    """How the steps were counted."""
    own = results("race-steps")
    seeds = sorted({run["seed"] for run in own["runs"]})
    return paragraph(
        f"How many steps it takes is another question. {own['ranks']} simulated ranks train a",
        f"convolutional network of {own['parameters']:,} parameters on MNIST until the mean of",
        f"{own['window']} steps reaches a training loss of {own['goal_loss']}, and an accuracy of",
        f"{100 * own['goal_accuracy']:.1f} %, on batches not seen before, in at most",
        f"{own['most_steps']} steps. The goals were fixed before. The rate is {own['rate']} for all,",
        f"not tuned, and there are {len(seeds)} seeds. Bytes of PowerSGD and of `none` are formulas.",
    )  # fmt: skip


def steps_table() -> str:
    """Steps to the goals."""
    return markdown(show.race_steps(results("race-steps")))


def times_said() -> str:
    """Who arrives first on which link."""
    steps, seconds = results("race-steps"), results("race-seconds")
    rounds = min(len(own["seconds"]) for own in seconds["runs"])
    found = []
    for rate in show.race_rates(seconds):
        ahead = []
        for goal, word in zip(show.RACE_GOALS, ("loss", "accuracy"), strict=True):
            other = show.best_powersgd(steps, seconds, rate, goal)
            times = show.sooner(steps, seconds, rate, goal, LOW_RANK_8, other)
            ahead.append(f"{times} times as soon at the {word} as the best PowerSGD, `{other}`")
        found.append(f"At {rate / 1e6:g} Mbit/s `low-rank` is {' and '.join(ahead)}.")
    return paragraph(
        f"Seconds to the goals are these steps times the seconds of one, the median of {rounds}",
        f"steps of the same network on {seconds['ranks']} ranks whose links have that rate;",
        "contenders took turns.", *found, "The intervals draw seeds and rounds anew.",
    )  # fmt: skip


def times_table() -> str:
    """Seconds to the goals, link by link."""
    steps, seconds = results("race-steps"), results("race-seconds")
    tables = [show.arrivals(steps, seconds, rate) for rate in show.race_rates(seconds)]
    return "\n\n".join(f"{own.title}:\n\n{markdown(own)}" for own in tables)


def islands_table() -> str:
    """Islands."""
    return markdown(show.islands(results("race-islands")))
