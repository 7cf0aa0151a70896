"""Links of a known rate between the ranks of this machine, without root.

```
rank 0: veth0 ──── port0 ┐
rank 1: veth0 ──── port1 ┤ bridge (hub)
rank 2: veth0 ──── port2 ┘
```

A user namespace of its own lets an ordinary user make network namespaces: one for the hub and one
for each rank. Each `veth0` shapes what its rank sends and each port what its rank receives, so
every rank has the whole rate in both directions, as on a switch. A namespace lives as long as the
process that was started in it, which ends when its input closes. So nothing is left behind, even
if this process is killed.
"""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from fewbits.errors import SpecError
from fewbits.train import shaping
from fewbits.train.shaping import VETH

MOST_LINKED = 250  # ranks
_SMALLEST_BURST = 16_000  # bytes: what a step may send for nothing is little of its message
_HOLDER = ("sh", "-c", "echo ready; exec cat")
_PACKAGES = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2"}


class EmulatedLinks:
    """The namespaces of some ranks, until they are closed; `SpecError` says why not."""

    def __init__(self, rate: float, ranks: int) -> None:
        self.rate, self.ranks = rate, ranks
        if sys.platform != "linux":
            raise SpecError(f"network namespaces are Linux's, this is {sys.platform}")
        self._programs = {name: _installed(name) for name in _PACKAGES}
        with ExitStack() as stack:
            self._holders = self._lay(stack)
            self._open = stack.pop_all()

    def close(self) -> None:
        """Remove the namespaces; processes in them must have ended."""
        self._open.close()

    def inside(self, rank: int) -> tuple[str, ...]:
        """The words before a command that runs in the rank's namespace."""
        return self._within(self._holders[rank])

    @staticmethod
    def address(rank: int) -> str:
        return f"10.77.0.{rank + 1}"

    def _lay(self, stack: ExitStack) -> list[int]:
        """The processes that hold the ranks' namespaces."""
        unshare = self._programs["unshare"]
        hub = self._hold(stack, [unshare, "--user", "--map-root-user", "--net"])
        of_user = self._within(hub, network=False)
        holders = [self._hold(stack, [*of_user, unshare, "--net"]) for _ in range(self.ranks)]
        self._do(hub, "ip", ["link add bridge type bridge", "link set bridge up"])
        for rank, holder in enumerate(holders):
            port = f"port{rank}"
            self._do(hub, "ip", [
                f"link add {port} type veth peer name {VETH} netns {holder}",
                f"link set {port} master bridge",
                f"link set {port} up",
            ])  # fmt: skip
            self._do(holder, "ip", [
                "link set lo up",
                f"link set {VETH} addrgenmode none",  # gloo shall find one address
                f"address add {self.address(rank)}/24 dev {VETH}",
                f"link set {VETH} up",
            ])  # fmt: skip
            for place, device in ((hub, port), (holder, VETH)):
                self._do(place, "tc", [f"qdisc add dev {device} root {' '.join(self._limit)}"])
        return holders

    @property
    def _limit(self) -> tuple[str, ...]:
        return shaping.tbf(self.rate, shaping.burst_bytes(self.rate, _SMALLEST_BURST))

    def _within(self, process: int, *, network: bool = True) -> tuple[str, ...]:
        words = (self._programs["nsenter"], "--target", str(process), "--user")
        return (*words, "--preserve-credentials", *(("--net",) if network else ()), "--")

    def _do(self, holder: int, program: str, lines: Sequence[str]) -> None:
        try:
            shaping.run(*self._within(holder), self._programs[program], "-batch", "-", lines=lines)
        except SpecError as error:
            complaint = str(error).rpartition("-batch -: ")[2]
            raise SpecError(f"{program} {lines[0]}: {complaint}") from error

    @staticmethod
    def _hold(stack: ExitStack, words: Sequence[str]) -> int:
        """The process id of a new namespace's holder."""
        process = subprocess.Popen(
            [*words, *_HOLDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        stack.callback(shaping.end, process)
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != b"ready\n":
            last = process.stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise SpecError(last or "a namespace cannot be made")
        return process.pid


def _installed(program: str) -> str:
    path = shaping.found(program)
    if path is None:
        raise SpecError(f"{program} is missing: apt install {_PACKAGES[program]}")
    return path
