"""Makes the text of README and docs about `scale`."""

from fewbits_lab.prose import bullets, paragraph
from fewbits_lab.results import results


def scale_method() -> str:
    """The method of `scale`, and the error of its formula."""
    found = results("scale-summary")
    off = found["formula_off"]
    exact = [name for name, own in off.items() if own == 0]
    others = [f"at most {100 * own:.1f} % off for `{name}`" for name, own in off.items() if own]
    return paragraph(
        f"`scale` is not from a paper. Its bytes are measured with up to {max(found['measured_ranks'])} ranks as",
        "threads, by the real collective. The formula for more ranks is exact for",
        f"{', '.join(f'`{name}`' for name in exact)} and {', '.join(others)}. All seconds are modelled, with",
        "assumptions that the page states. Its results:",
    )


def fastest() -> str:
    """Which operator the model prefers on which link."""
    rows = [row for row in results("scale-summary")["fastest"] if row["local_steps"] == 1]
    links: dict[str, list[str]] = {}
    for row in rows:
        name = max(row["cases"], key=lambda own: row["cases"][own])
        what = "not compressing" if name == "do not compress" else f"`{name}`"
        links.setdefault(what, []).append(f"{row['gbit_per_second']:g}")
    said = ", ".join(f"{name} at {' and '.join(own)} Gbit/s" for name, own in links.items())
    cases = sum(rows[0]["cases"].values())
    return f"Fastest in most of {cases} cases a link, with a codec on one processor thread: {said}."


def scale_verdict() -> str:
    """The verdict of the model."""
    crowd = results("scale-summary")["more_workers_than_chunks"]
    sent, over = crowd["megabytes"], results("scale-summary")["over_even"]
    pays = "Compression pays there on some link." if crowd["pays"] else (
        "Compression does not pay there on any link."
    )  # fmt: skip
    counted = {
        (row["gbit_per_second"], row["local_steps"]): row["cases"]
        for row in results("scale-summary")["fastest"]
    }
    same = all(counted[link, 1] == cases for (link, steps), cases in counted.items() if steps != 1)
    return bullets(
        "A rank sends about the same at any number of workers. A unit has 65,536 values, or fewer, so that each of 16 or more"
        f" ranks owns four: the busiest one sends at most {max(over.values()):.2f} times an even share of the codes. What grows"
        f" are headers, 256 bytes to every rank in each hop: with a model of {crowd['parameters']} parameters and"
        f" {crowd['workers']:,} workers a unit has {crowd['unit']} values, and the busiest rank sends {sent['natural']:.0f} MB in a"
        f" step with `natural`, {crowd['headers']:.0f} MB of it headers, where plain all-reduce sends {sent['none']:.0f} MB. {pays}"
        f" The entropy coder's tables cost {100 * (crowd['coded_more'] - 1):.0f} % more bytes in units that small, which the formula"
        " leaves out.",
        fastest(),
        f"Local steps {'do not move' if same else 'move'} these borders: they divide the exchange and the gain by the same"
        " number.",
    )
