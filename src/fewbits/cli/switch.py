"""`fewbits switch`: an aggregator of codes, on one core, until it is told to end."""

import argparse
import signal
import sys
from types import FrameType

from fewbits.cli.console import Subcommands, add_command, count, print_json
from fewbits.errors import SpecError
from fewbits.links import aggregator
from fewbits.links.aggregator import Address, Aggregator, Setup

_NAMES = {
    "jobs": "jobs begun",
    "packets": "packets received",
    "bytes": "bytes received",
    "packets_sent": "packets sent",
    "bytes_sent": "bytes sent",
    "codes": "codes summed",
    "sums": "sums of all workers",
    "nonfinite": "of them with a NaN or an infinity",
    "duplicates": "packets received again",
    "stale": "packets of other rounds",
    "foreign": "packets of other jobs, workers or addresses",
    "malformed": "packets that are none of ours",
    "mismatched": "packets that contradict earlier ones",
}


def register(commands: Subcommands) -> None:
    """Add the command's parser."""
    parser = add_command(
        commands,
        "switch",
        summary="add up gradients for workers that train with --scheme switch",
        example="fewbits switch --workers 4 &\n"
        "  fewbits train --workers 4 --scheme switch --aggregator 127.0.0.1:48320\n"
        "  kill -USR1 %1   # prints the statistics",
        run=run,
    )
    add = parser.add_argument
    add("--bind", default=f"127.0.0.1:{aggregator.PORT}", metavar="HOST:PORT",
        help=f"where to listen, port 0 for any (default: 127.0.0.1:{aggregator.PORT})")  # fmt: skip
    add("--workers", type=count, required=True, metavar="N", help="workers of a job, 1 to 64")
    add("--slots", type=count, default=aggregator.SLOTS, metavar="N",
        help=f"packets of a worker under way at once (default: {aggregator.SLOTS})")  # fmt: skip
    add("--chunk", type=count, default=aggregator.CHUNK, metavar="N",
        help=f"the most codes in a packet (default: {aggregator.CHUNK})")  # fmt: skip
    add("--idle", type=float, default=aggregator.IDLE, metavar="S",
        help="seconds of silence after which another job may begin "
        f"(default: {aggregator.IDLE:g})")  # fmt: skip


def run(options: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM; statistics then, and at every SIGUSR1."""
    if sys.platform != "linux":
        raise SpecError("fewbits switch runs on Linux only")
    setup = Setup(options.workers, options.slots, options.chunk, options.idle)
    with Aggregator(Address.of(options.bind), setup) as own:
        asked = False

        def end(_number: int, _frame: FrameType | None) -> None:
            own.stop()

        def ask(_number: int, _frame: FrameType | None) -> None:
            nonlocal asked
            asked = True

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGUSR1, ask)
        _greet(own, json=options.json)
        while not own.stopped:
            own.serve_for(0.25)
            if asked:
                asked = False
                _show(own, json=options.json)
        _show(own, json=options.json)


def _greet(own: Aggregator, *, json: bool) -> None:
    memory = own.memory_bytes
    if json:
        print_json({"event": "listening", "address": str(own.address), "memory_bytes": memory})
    else:
        print(
            f"listening on {own.address} for {own.setup.workers} workers, {own.setup.slots} slots "
            f"of {own.slot_bytes / 1024:.1f} KiB, {memory / 2**20:.1f} MiB in all"
        )
    sys.stdout.flush()


def _show(own: Aggregator, *, json: bool) -> None:
    counts = own.report()
    if json:
        print_json({"event": "statistics", **counts})
    else:
        print("\n".join(f"{counts[name]:>16,}  {text}" for name, text in _NAMES.items()))
    sys.stdout.flush()
