"""The link of the headline, and who is faster on it, from `links`."""

from fewbits_lab.prose import one, paragraph, span
from fewbits_lab.record import Item
from fewbits_lab.studies.links import show as links_show
from fewbits_lab.studies.links import text as links_text

SLOW = 1e8  # bits a second, of the link of the headline


def slow_link() -> Item:
    """The link of the headline."""
    return one(links_text.settings(), rate_bits_per_second=SLOW, ranks=2)


def within(ratio: dict[str, float]) -> str:
    """The 95 % interval as text."""
    return span((ratio["low"], ratio["high"]), 1)


def biased_are_faster() -> str:
    """The biased methods that beat our best unbiased operator on the headline's link, if any."""
    slow = slow_link()
    ours = links_text.fastest(slow, links_show.LINK_OURS)
    biased = [
        name
        for name in (*links_text.LINK_POWERSGD, "tiny")
        if links_show.median(slow, name) < links_show.median(slow, ours)
    ]

    def figures(name: str) -> str:
        ratio = links_show.row(slow, name)["times_plain"]
        step = f"{1e3 * links_show.median(slow, name):.0f} ms"
        return f"`{name}` {ratio['value']:.1f} ({within(ratio)}; {step})"

    if not biased:
        return paragraph("On the slowest link no biased method is faster than our best operator.")
    return paragraph(
        "**On slow links, if bias and a memory do no harm,** methods that are biased and keep a memory are faster than our",
        "best unbiased operator. At 100 Mbit/s with two ranks the speed of a step as a multiple of plain DDP's (95 %; its",
        f"median) is {', '.join(map(figures, biased))}; unbiased: {figures(ours)}. `powersgd` is torch's.",
    )  # fmt: skip
