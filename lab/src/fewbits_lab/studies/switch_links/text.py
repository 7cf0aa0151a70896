"""Makes the text of README and docs about `switch-links`."""

from fewbits_lab.prose import paragraph, span, table
from fewbits_lab.results import results

_PLAIN, SHARDED, _SWITCH = "none", "natural", "natural@switch"


def links_table() -> str:
    """Steps and bytes on links with loss."""
    rows = []
    for own in results("switch-links"):
        found = [own["contenders"][name] for name in (_PLAIN, SHARDED, _SWITCH)]
        rows.append([
            str(own["ranks"]), f"{100 * own['loss']:g} %",
            *(f"{1e3 * one['step_seconds']['median']:.0f} ms" for one in found),
            *(f"{one['sent_bytes_a_step'] / 1e6:.2f}" for one in found),
            f"{100 * found[2]['less_data_than_plain']:.1f} %",
        ])  # fmt: skip
    titles = "ranks|lost|plain|sharded|switch|plain MB|sharded MB|switch MB|switch saves"
    return table(titles, rows)


def links_bytes() -> str:
    """Bytes against the paper's system and against the formula."""
    saved = [
        100 * own["contenders"][_SWITCH]["less_data_than_plain"]
        for own in results("switch-links")
        if own["ranks"] == 8
    ]
    return paragraph(
        "The paper's system sent 84 % less than plain training with 8 workers. Measured here with 8 ranks:",
        f"{span(saved, 1)} %. A ring sends 2(n − 1)/n times four bytes a value, seven bytes at n = 8, a switch one",
        "byte. That would be 85.7 % less without the headers of packets of 1,024 codes. Sharded natural compression sends",
        "9 bits 2(n − 1)/n times, 72 % less at any n.",
    )  # fmt: skip


def links_seconds() -> str:
    """Steps against plain and sharded, with the load under which they were taken."""

    def faster(name: str, other: str) -> str:
        pairs = [
            [own["contenders"][one]["step_seconds"]["median"] for one in (name, other)]
            for own in results("switch-links")
        ]
        return f"{sum(mine < theirs for mine, theirs in pairs)} of {len(pairs)}"

    loads = [own["load_average"] for own in results("switch-links")]
    return paragraph(
        f"In time the switch beat plain all-reduce in {faster(_SWITCH, _PLAIN)} settings, and sharded compression in",
        f"{faster(_SWITCH, SHARDED)}: with 2 ranks both send the same, and with 8 ranks nine programs shared two cores,",
        f"which other programs used too (load averages {span(loads, 1)}). A lost packet costs its slot 20 ms or more,",
        "which shows at 1 %. This measurement shows fewer bytes; a gain in time would need more cores than ranks.",
    )  # fmt: skip
