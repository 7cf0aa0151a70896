"""An aggregator in the middle of the network: in the namespace of the bridge, as in a switch.

Its own link has no limit; what it receives and sends passes every rank's link once.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fewbits import cli
from fewbits.errors import PeerError
from fewbits.exits import end_with_parent
from fewbits.switch.job import Aggregators
from fewbits.switch.protocol import Address
from fewbits.train.shaping import end
from fewbits_lab.links.network import Network, undisturbed

_ADDRESS = Address("10.77.0.254", 48_320)
_CHUNK = 1024  # codes of a packet that fits Ethernet's 1500 bytes; a unit of 65,536 is 64 of them
_SLOTS = 64


def options() -> dict[str, Any]:
    """The options that a rank passes to `attach`."""
    return {"collective": "switch", "aggregators": Aggregators((str(_ADDRESS),), chunk=_CHUNK)}


@contextmanager
def serving(network: Network, ranks: int) -> Iterator[None]:
    """Run the aggregator until the end of the block."""
    network.add_to_hub(_ADDRESS.host)
    program = [sys.executable, "-m", __name__, "--json", "--insecure", "--bind", str(_ADDRESS)]
    sizes = ["--workers", str(ranks), "--slots", str(_SLOTS), "--chunk", str(_CHUNK)]
    with undisturbed():
        process = subprocess.Popen(
            ["ip", "netns", "exec", network.hub, *program, *sizes],
            stdin=subprocess.PIPE,  # it ends when this closes, also if the launcher is killed
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line or json.loads(line).get("event") != "listening":
            raise PeerError("the aggregator did not start")
        yield
    finally:
        with undisturbed():
            end(process)


def main() -> int:
    """`fewbits switch`, until the program that started it has gone."""
    end_with_parent()
    return cli.main(["switch", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
