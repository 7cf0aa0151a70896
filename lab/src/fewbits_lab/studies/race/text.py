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
        f"took turns, {every[0]['repeats']} of each; computing alone takes",
        " and ".join(f"{1e3 * own['compute_seconds']:.0f} ms" for own in every) + ",",
        f"the load average at the start was {' and '.join(str(own['load_average']) for own in every)}.",
        *found,
        "Intervals hold the ratio in 95 of 100 cases. Bytes are those of a rank's interface, with",
        "headers of packets and acknowledgements.",
    )  # fmt: skip


def steps_table() -> str:
    """Steps to the goals."""
    return markdown(show.race_steps(results("race-steps")))


def islands_table() -> str:
    """Islands."""
    return markdown(show.islands(results("race-islands")))
