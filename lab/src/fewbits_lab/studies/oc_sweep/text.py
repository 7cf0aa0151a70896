"""Makes the text of README and docs about `oc-sweep`."""

from fewbits_lab.prose import bullets
from fewbits_lab.record import Item
from fewbits_lab.results import results


def sweep(rounding: str) -> list[Item]:
    """The rows of one rounding that reached the goal."""
    return [
        row
        for row in results("oc-sweep")["rows"]
        if row["rounding"] == rounding and row["steps"] is not None
    ]


def bias() -> str:
    """The savings of nearest rounding, and the ν at which they end."""
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
    """The ν from which nearest rounding stalls."""
    lost = min(
        r["nu"] for r in results("oc-sweep")["rows"] if r["rounding"] == "nearest" and r["lost"]
    )
    return (
        f"**From ν = {lost:g} on it stalls.** It reduces large values first, so gradients become flat, and it keeps hardly"
        " anything of a flat vector: the relative error of single steps comes near 1. Without error feedback"
        " theory guarantees nothing there."
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
