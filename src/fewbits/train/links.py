"""How the ranks of this machine reach each other: over its loopback, or over emulated links."""

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from fewbits.errors import SpecError
from fewbits.theory import quantities
from fewbits.train.emulated import EmulatedLinks
from fewbits.train.shaping import VETH

EMULATED_LINK, MODELLED_LINK = "emulated", "modelled"
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


@dataclass(frozen=True, slots=True)
class Meeting:
    """Rank 0's address, the interface, and the words before a rank's command, if there are any.

    `link` says what the results say of the link; None if nobody asked for one.
    """

    master: str = "127.0.0.1"
    interface: str | None = None
    prefixes: tuple[tuple[str, ...], ...] = ()
    link: dict[str, Any] | None = None

    def inside(self, rank: int) -> tuple[str, ...]:
        return self.prefixes[rank] if self.prefixes else ()

    def environment(self) -> dict[str, str]:
        interface = self.interface or os.environ.get("GLOO_SOCKET_IFNAME", _LOOPBACK)
        return {"MASTER_ADDR": self.master, "GLOO_SOCKET_IFNAME": interface}


@contextmanager
def opened(link: str | None, ranks: int, sharing: int = 1) -> Iterator[Meeting]:
    """Links of that rate until the block ends; the loopback if none is asked for or can be had.

    So many neighbours are `sharing` a link, as ranks of a node: among each other they have the
    loopback.
    """
    rate = None if link is None else quantities.link_rate(link)
    if rate is None:
        yield Meeting()
        return
    try:
        network = EmulatedLinks(rate, ranks // sharing)
    except SpecError as error:
        yield Meeting(link=_about(rate, MODELLED_LINK, str(error)))
        return
    with closing(network):
        inside = tuple(network.inside(rank // sharing) for rank in range(ranks))
        yield Meeting(network.address(0), VETH, inside, _about(rate, EMULATED_LINK, None))


def on_link(run: dict[str, Any], bits_per_second: float) -> dict[str, Any]:
    """A run of the loopback as it would be on a link: its time on the wire is modelled.

    Computing and coding are the measured times. Nothing is hidden behind anything else.
    """
    measured = run["step_ms"]
    parts = {"compute": measured["compute"], "codec": run["busy_ms"]["codec"]}
    parts["wire"] = 8e3 * run["bytes_per_step"] / bits_per_second
    total = sum(parts.values())
    times = total / measured["total"]
    curve = [point | {"seconds": times * point["seconds"]} for point in run["curve"]]
    warnings = list(run["warnings"])
    if run.get("auto"):
        warnings.append(f"{run['auto']['chosen']} was chosen for the loopback, not for this link")
    changed = {"seconds": times * run["seconds"], "curve": curve, "warnings": warnings}
    return run | changed | {"step_ms": {"total": total, **parts}}


def _about(rate: float, kind: str, why_not: str | None) -> dict[str, Any]:
    text = quantities.rate_text(rate, digits=12)
    return {"bits_per_second": rate, "text": text, "kind": kind, "why_not_emulated": why_not}
