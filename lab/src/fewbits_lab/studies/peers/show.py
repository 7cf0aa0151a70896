"""Shows `peers`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.peers.run import PEERS_MEASURED, PeersRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_OWN_PACKAGE = "fewbits"


def findings(table: Sequence[PeersRow]) -> list[str]:
    """The peers that are ahead, those that are not, and those that were not measured."""
    done = [row for row in table if row.status == PEERS_MEASURED]
    others = [row for row in done if row.package != _OWN_PACKAGE]
    ours = [row for row in done if row.package == _OWN_PACKAGE]
    found = []
    if others and ours:
        fast, own = (max(rows, key=lambda row: row.encode_ratio or 0) for rows in (others, ours))
        found.append(
            f"Fastest encoder: {fast.package}'s {fast.codec}, {fast.encode_ratio:.2f} times memcpy "
            f"at {fast.bits_per_value:.1f} bits; of ours {own.codec}, {own.encode_ratio:.2f} at "
            f"{own.bits_per_value:.1f}."
        )
    for row in others:
        better = [one for one in ours if _dominates(one, row)]
        if better and row.bias != "exact":
            best = min(better, key=lambda one: one.bits_per_value or 0)
            found.append(
                f"{row.package}'s {row.codec}: {row.bits_per_value:.2f} bits with the error "
                f"{row.error:.2g}; {best.codec} takes {best.bits_per_value:.2f} with "
                f"{best.error:.2g}, {best.bias}."
            )
    hidden = [f"{row.package}'s {row.codec}" for row in done if row.nan == "hidden"]
    found.append(f"One NaN among the values is hidden by: {', '.join(hidden) or 'none'}.")
    missing = [row for row in table if row.status != PEERS_MEASURED]
    return found + [f"{row.package} {row.version}, {row.codec}: {row.status}." for row in missing]


def _dominates(one: PeersRow, other: PeersRow) -> bool:
    pairs = ((one.bits_per_value, other.bits_per_value), (one.error, other.error))
    return all((mine or 0) <= (theirs or 0) for mine, theirs in pairs)


def draw(table: Sequence[PeersRow]) -> "Figure":
    """Bits against error on the left, speeds on the right."""
    done = [row for row in table if row.status == PEERS_MEASURED]
    names = [f"{row.package}: {row.codec}" for row in done]
    packages = list(dict.fromkeys(row.package for row in done))
    colours = dict(zip(packages, figures.COLOURS, strict=False))
    drawn, (left, middle, right) = figures.panels(
        "Codecs of others and ours on one gradient", 3, width=13, height=8
    )
    for at, row in enumerate(done):
        own = colours[row.package]
        left.barh(at, row.bits_per_value or 0, color=own, height=0.65, alpha=0.8)
        left.annotate(f"{row.bits_per_value:.1f}", (row.bits_per_value or 0, at), (3, 0),
                      textcoords="offset points", va="center", fontsize=8)  # fmt: skip
        if row.error:
            middle.plot(row.error, at, "o", color=own)
            middle.annotate(f"{row.error:.1g}", (row.error, at), (6, 0), va="center", fontsize=8,
                            textcoords="offset points")  # fmt: skip
        right.plot(row.encode_ratio or 0, at, ">", color=own)
        if row.decode_ratio:
            right.plot(row.decode_ratio, at, "<", color=own, mfc="none")
    for plot, title, label in (
        (left, "size", "bits a value"),
        (middle, "error (log; none: exact)", "relative squared error"),
        (right, "speed (log; open: decode)", "times memcpy"),
    ):
        figures.names(plot, names)
        plot.set_title(title, fontsize=10)
        plot.set_xlabel(label)
    left.set_xlim(0, 37)
    middle.set_xscale("log")
    right.set_xscale("log")
    middle.set_xlim(middle.get_xlim()[0], middle.get_xlim()[1] * 30)
    for plot in (middle, right):
        plot.set_yticklabels([])
    return drawn


PEERS = Experiment(
    name="peers",
    title="Peers in the same run",
    about="Codecs of torch's hooks, hivemind, bitsandbytes, zstd and blosc2 on the same gradient "
    "as ours, each called as its package calls it, without any network: what would be sent, what "
    "is lost, and the time, with memory allocated anew in every call, ours too. The gradient is "
    "one vector, as in DDP's buckets; codecs with one table or scale for all values fit better "
    "where each layer goes by itself. Peers were made for other ends: casts for speed, PowerSGD "
    "for use with error feedback, bitsandbytes for memory, zstd and blosc2 for any data without "
    "loss. Packages that are not installed have a row that says so.",
    row=PeersRow,
    compute=rows,
    draw=draw,
    findings=findings,
)
