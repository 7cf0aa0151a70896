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
        f"not tuned, and {'there is one seed' if len(seeds) == 1 else f'there are up to {len(seeds)} seeds'},",
        "so small differences mean nothing. Bytes of PowerSGD and of `none` are formulas.",
        "Races of ResNet-20 and of a GPT were not run.",
    )  # fmt: skip


def steps_table() -> str:
    """Steps to the goals."""
    return markdown(show.race_steps(results("race-steps")))


def islands_table() -> str:
    """Islands."""
    return markdown(show.islands(results("race-islands")))
