"""docs/lab.md, from `fewbits lab run oc-sweep` and `scale.py`."""

from typing import Any

from benchmarks.rendered.blocks import bullets, paragraph, results

Row = dict[str, Any]


def sweep(rounding: str) -> list[Row]:
    """The rows of one rounding that reached the goal."""
    return [
        row
        for row in results("oc-sweep")["rows"]
        if row["rounding"] == rounding and row["steps"] is not None
    ]


def bias() -> str:
    """What nearest rounding saves, and where it stops."""
    plain = sweep("none")[0]["steps"]
    nearest = sweep("nearest")
    last = max(row["nu"] for row in nearest)
    most = max(nearest, key=lambda row: row["times_less_rans"])
    steps = max(row["steps"] for row in nearest) / plain
    other = {
        name: max(row["times_less_rans"] for row in sweep(name))
        for name in ("subtractive", "stochastic")
    }
    paper = max(row["times_less_paper"] for row in sweep("stochastic"))
    return (
        f"**Bias costs nothing up to ν = {last:g}.** Nearest rounding then takes at most {steps:.2f} times the steps of"
        " no compression (the rate 1/(1 − ν) is far too careful) and"
        f" {most['times_less_rans']:.1f} times fewer bytes at ν = {most['nu']:g}, against {other['subtractive']:.1f} at"
        f" best for `subtractive` and {other['stochastic']:.1f} for `stochastic` rounding ({paper:.1f} with the paper's"
        " coder)."
    )


def stall() -> str:
    """Where nearest rounding does not arrive."""
    lost = min(
        r["nu"] for r in results("oc-sweep")["rows"] if r["rounding"] == "nearest" and r["lost"]
    )
    return (
        f"**From ν = {lost:g} on it stalls.** It lowers large values first. So gradients become flat, and of a flat"
        " vector it keeps next to nothing: the relative error of single steps comes near 1. Without error feedback"
        " nothing is promised there."
    )  # fmt: skip


def rate() -> str:
    """Unbiased rounding against its prediction."""
    rows = [*sweep("stochastic"), *sweep("subtractive")]
    off = max(abs(row["steps"] / row["predicted"] - 1) for row in rows)
    return (
        "**Unbiased rounding follows its rate**, 1 + ω times the steps: the furthest is"
        f" {100 * off:.1f} % from it."
    )


def sweep_verdict() -> str:
    """Three results that the papers do not have."""
    return bullets(bias(), stall(), rate())


def scale_method() -> str:
    """What is measured of `scale`, and how far its formula is off."""
    found = results("scale")
    off = found["formula_off"]
    exact = [name for name, own in off.items() if own == 0]
    others = [f"at most {100 * own:.1f} % off for `{name}`" for name, own in off.items() if own]
    return paragraph(
        f"`scale` is not from a paper. Its bytes are measured with up to {max(found['measured_ranks'])} ranks as",
        "threads, by the real scheme; the formula that goes on from there is exact for",
        f"{', '.join(f'`{name}`' for name in exact)} and {', '.join(others)}. All seconds are modelled, with",
        "assumptions that the page states. What it says:",
    )


def fastest() -> str:
    """Which operator the model prefers on which link."""
    rows = [row for row in results("scale")["fastest"] if row["local_steps"] == 1]
    links: dict[str, list[str]] = {}
    for row in rows:
        name = max(row["cases"], key=lambda own: row["cases"][own])
        what = "not compressing" if name == "do not compress" else f"`{name}`"
        links.setdefault(what, []).append(f"{row['gbit_per_second']:g}")
    said = ", ".join(f"{name} at {' and '.join(own)} Gbit/s" for name, own in links.items())
    cases = sum(rows[0]["cases"].values())
    return f"Fastest in most of {cases} cases a link, with a codec on one processor thread: {said}."


def scale_verdict() -> str:
    """What the model says."""
    crowd = results("scale")["more_workers_than_chunks"]
    sent = crowd["megabytes"]
    pays = "Compression pays there on some link." if crowd["pays"] else (
        "Compression does not pay there on any link."
    )  # fmt: skip
    counted = {
        (row["gbit_per_second"], row["local_steps"]): row["cases"]
        for row in results("scale")["fastest"]
    }
    same = all(counted[link, 1] == cases for (link, steps), cases in counted.items() if steps != 1)
    return bullets(
        "A rank sends about the same at any number of workers, up to one worker for each chunk of 65,536 values. With"
        f" more workers than chunks the owners' links are the bottleneck: a model of {crowd['parameters']} parameters"
        f" has {crowd['chunks']} chunks, and with {crowd['workers']:,} workers the busiest rank sends"
        f" {sent['natural']:.0f} MB in a step with `natural`, where plain all-reduce sends {sent['none']:.0f} MB. {pays}",
        fastest(),
        f"Local steps {'do not move' if same else 'move'} these borders: they make both, exchange and gain, as many"
        " times smaller.",
    )


BLOCKS = {"sweep": sweep_verdict, "scale-method": scale_method, "scale": scale_verdict}
