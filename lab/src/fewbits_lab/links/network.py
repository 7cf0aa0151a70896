"""Ranks' network namespaces, joined by a bridge in a namespace of its own, with shaped links.

```
rank 1: veth0 ──── port1 ┐
rank 2: veth0 ──── port2 ┤ bridge (hub)
rank 3: veth0 ──── port3 ┘
```

Each `veth0` shapes what its rank sends, each port what its rank receives, so that a link has its
rate in both directions. Delay and loss are `netem`'s where the kernel has it. Otherwise every port
has a bridge of its own with a TAP device, and the relay joins these; packets are lost by `nft` as
they arrive. Names carry the process id, and nothing in the namespace of the caller is touched.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fewbits.errors import SpecError
from fewbits.train import shaping
from fewbits.train.shaping import VETH, end
from fewbits_lab.links import relay, tools
from fewbits_lab.links.setting import ShapedLink

_BRIDGE = "bridge"
_BURST = 128_000  # bytes that may leave at once: twice the largest unsegmented packet
_NETEM_PACKETS = "100000"  # that may be under way: its default of 1000 is 15 ms of 100 Mbit/s
_RELAY_START = 30.0  # seconds
_LOSS_UNITS = 1_000_000
_NAMESPACES = Path("/run/netns")


@dataclass(frozen=True, slots=True)
class Shaping:
    """The tools that shaped the links."""

    rate: str = "none"
    delay: str = "none"
    loss: str = "none"
    burst_bytes: int = 0

    def __str__(self) -> str:
        words = []
        if self.rate != "none":
            words.append(f"rate by {self.rate} with bursts of {self.burst_bytes / 1e3:g} kB")
        if self.delay != "none":
            words.append(f"delay by {self.delay}")
        if self.loss != "none":
            words.append(f"loss by {self.loss}, packets of one segment")
        return "; ".join(words) or "nothing shaped"


class Network:
    """The namespaces of one setting; they are gone when the context ends, however it ends."""

    def __init__(self, ranks: int, link: ShapedLink) -> None:
        self.ranks, self.link = ranks, link
        self.shaping = Shaping()
        self._prefix = f"fewbits-{os.getpid()}"
        self._hub = f"{self._prefix}-hub"
        self._relay: subprocess.Popen[bytes] | None = None

    def namespace(self, rank: int) -> str:
        """The name of a rank's namespace."""
        return f"{self._prefix}-{rank}"

    @property
    def hub(self) -> str:
        """The name of the namespace that joins the ranks."""
        return self._hub

    def __enter__(self) -> "Network":
        try:
            self._lay()
            self._shape()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Take everything down; not to be interrupted."""
        with undisturbed():
            if self._relay is not None:
                end(self._relay)
            for name in (*map(self.namespace, range(self.ranks)), self._hub):
                if (_NAMESPACES / name).exists():
                    shaping.works("ip", "netns", "delete", name)

    def _lay(self) -> None:
        self._add(self._hub)
        if not self._needs_relay:
            self._add_bridge(_BRIDGE)
        for rank in range(self.ranks):
            own, port = self.namespace(rank), f"port{rank + 1}"
            self._add(own)
            shaping.run(
                "ip", "-n", own, "link", "add", VETH, "address", relay.address(rank + 1),
                "type", "veth", "peer", "name", port, "netns", self._hub,
            )  # fmt: skip
            shaping.run("ip", "-n", own, "address", "add", f"10.77.0.{rank + 1}/24", "dev", VETH)
            if not self._needs_relay:
                shaping.run("ip", "-n", self._hub, "link", "set", port, "master", _BRIDGE)
            shaping.run("ip", "-n", self._hub, "link", "set", port, "up")
            shaping.run("ip", "-n", own, "link", "set", VETH, "up")

    def _add(self, name: str) -> None:
        shaping.run("ip", "netns", "add", name)
        # Neighbours' announcements would be counted with the gradients.
        quiet = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6"
        shaping.works("ip", "netns", "exec", name, "sh", "-c", quiet)
        shaping.run("ip", "-n", name, "link", "set", "lo", "up")

    def _add_bridge(self, name: str) -> None:
        shaping.run("ip", "-n", self._hub, "link", "add", name, "type", "bridge")
        shaping.run("ip", "-n", self._hub, "link", "set", name, "up")

    def _shape(self) -> None:
        link = self.link
        netem = bool(link.latency or link.loss) and self._has_netem
        delay = ("netem" if netem else "relay") if link.latency else "none"
        lost = ("netem" if netem else "nftables") if link.loss else "none"
        burst = shaping.burst_bytes(link.rate or 0.0, _BURST)
        rate = "tbf" if link.rate else "none"
        self.shaping = Shaping(rate, delay, lost, burst if link.rate else 0)
        for rank in range(self.ranks):
            own = self.namespace(rank)
            above = self._emulate(own) if netem else ()
            self._limit(own, VETH, burst, above)
            self._limit(self._hub, f"port{rank + 1}", burst)
            if link.loss:
                # Else a lost packet may be 64 KB that the kernel has yet to cut.
                shaping.run("ip", "-n", own, "link", "set", VETH, "gso_max_segs", "1")
            if lost == "nftables":
                self._lose(own)
        if delay == "relay":
            self._start_relay()

    def _limit(self, namespace: str, device: str, burst: int, above: tuple[str, ...] = ()) -> None:
        if self.link.rate is not None:
            shaping.run(
                "tc", "-n", namespace, "qdisc", "add", "dev", device, *(above or ("root",)),
                *shaping.tbf(self.link.rate, burst),
            )  # fmt: skip

    def _emulate(self, namespace: str) -> tuple[str, ...]:
        """Delay and loss of what a rank sends; where below it the rate belongs."""
        words = ["delay", f"{self.link.latency * 1e6:.0f}us"] if self.link.latency else []
        words += ["loss", f"{100 * self.link.loss:g}%"] if self.link.loss else []
        shaping.run(
            "tc", "-n", namespace, "qdisc", "add", "dev", VETH, "root", "handle", "1:",
            "netem", "limit", _NETEM_PACKETS, *words,
        )  # fmt: skip
        return "parent", "1:1"

    def add_to_hub(self, address: str) -> None:
        """Give the bridge an address, for a program in its namespace that all ranks can reach."""
        if self._needs_relay:
            raise SpecError("a switch in the middle needs links without latency, or netem")
        shaping.run("ip", "-n", self._hub, "address", "add", f"{address}/24", "dev", _BRIDGE)
        if self.shaping.loss == "nftables":
            self._lose(self._hub, _BRIDGE)

    def _lose(self, namespace: str, device: str = VETH) -> None:
        tools.check_installed("nft")
        units = round(self.link.loss * _LOSS_UNITS)
        rules = (
            "add table inet fewbits; "
            "add chain inet fewbits arriving { type filter hook input priority 0; }; "
            f'add rule inet fewbits arriving iifname "{device}" '
            f"numgen random mod {_LOSS_UNITS} < {units} drop"
        )
        shaping.run("ip", "netns", "exec", namespace, "nft", rules)

    @cached_property
    def _needs_relay(self) -> bool:
        return self.link.latency > 0 and not self._has_netem

    @cached_property
    def _has_netem(self) -> bool:
        trial = ("tc", "-n", self._hub, "qdisc")
        found = shaping.works(*trial, "add", "dev", "lo", "root", "netem", "delay", "1ms")
        if found:
            shaping.run(*trial, "delete", "dev", "lo", "root")
        return found

    def _start_relay(self) -> None:
        if not Path("/dev/net/tun").exists():
            raise SpecError("a delay needs netem or /dev/net/tun, and this kernel has neither")
        program = [sys.executable, "-I", relay.__file__, str(self.ranks), str(self.link.latency)]
        with undisturbed():
            self._relay = subprocess.Popen(
                ["ip", "netns", "exec", self._hub, *program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        assert self._relay.stdout is not None
        assert self._relay.stderr is not None
        said, _, _ = select.select([self._relay.stdout], [], [], _RELAY_START)
        if not said or self._relay.stdout.readline() != b"ready\n":
            self._relay.kill()
            last = self._relay.stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise SpecError(f"the relay that delays packets did not start: {last}")
        for port in range(1, self.ranks + 1):
            self._add_bridge(f"bridge{port}")
            for device in (relay.TAP.format(port), f"port{port}"):
                shaping.run(
                    "ip", "-n", self._hub, "link", "set", device, "master", f"bridge{port}", "up"
                )
            tap = relay.TAP.format(port)
            shaping.run("ip", "-n", self._hub, "link", "set", tap, "txqueuelen", "10000")


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that would end the program take effect when the block has ended.

    Handlers, not a mask: a signal that this thread blocks goes to another thread of the process,
    and Python then runs the handler here all the same.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {own: signal.signal(own, lambda number, _: came.append(number)) for own in wanted}
    try:
        yield
    finally:
        for own, handler in before.items():
            signal.signal(own, signal.SIG_DFL if handler is None else handler)
        if came:
            signal.raise_signal(came[0])
