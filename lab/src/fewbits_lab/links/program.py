"""A program of one's own on ranks that have a network namespace each.

`launched` starts `SCRIPT … --rank WORK` once for each rank; there `join` takes WORK, `tell` answers
and `leave` ends.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from fewbits.errors import PeerError
from fewbits.exits import end_with_parent
from fewbits.train.shaping import VETH
from fewbits_lab.links.network import Network

LINK_PATIENCE = 120.0  # seconds


def launched(
    network: Network, script: str, *arguments: str, width: int = 1
) -> Iterator[dict[str, Any]]:
    """The lines of rank 0, each a JSON object; no process outlives the call.

    Every rank is `script … --rank WORK`, with what `join` wants to know. A namespace has `width`
    ranks that follow each other.
    """
    with tempfile.TemporaryDirectory() as scratch:
        ranks = []
        try:
            for number in range(network.ranks * width):
                work = json.dumps([number, network.ranks * width, f"{scratch}/store"])
                namespace = network.namespace(number // width)
                inside = ["ip", "netns", "exec", namespace, sys.executable]
                ranks.append(
                    subprocess.Popen(
                        [*inside, script, *arguments, "--rank", work],
                        env=os.environ | {"GLOO_SOCKET_IFNAME": VETH, "OMP_NUM_THREADS": "1"},
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE if number == 0 else subprocess.DEVNULL,
                    )
                )
            assert ranks[0].stdout is not None
            for line in ranks[0].stdout:
                yield json.loads(line)
            if ranks[0].wait():
                raise PeerError("a rank failed")
        finally:
            for process in ranks:
                process.kill()
                process.wait()


def join(work: str) -> tuple[int, int]:
    """Join the other ranks; this one's number, and how many they are."""
    number, ranks, store = json.loads(work)
    end_with_parent()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=number,
        world_size=ranks,
        timeout=timedelta(seconds=LINK_PATIENCE),
    )
    return number, ranks


def tell(number: int, row: dict[str, Any]) -> None:
    """Send a row of rank 0 to the launcher."""
    if number == 0:
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


def leave() -> None:
    """End together, and at once: gloo's threads may abort where other ranks leave meanwhile."""
    dist.barrier()
    os._exit(0)


def interface_bytes() -> int:
    """Bytes that the rank's interface has sent."""
    return int(Path(f"/sys/class/net/{VETH}/statistics/tx_bytes").read_text())
