"""`fewbits switch`: runs an aggregator of codes on one core until a signal ends it."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from fewbits.backend.switch import MOST_PACKET_CODES, MOST_SLOTS
from fewbits.cli.console import Parser, print_json, up_to
from fewbits.reference.switching import MOST_WORKERS
from fewbits.switch import service
from fewbits.switch.aggregator import IDLE, SLOTS, Aggregator, AggregatorSetup
from fewbits.switch.keys import KEY_VARIABLE, chosen_key
from fewbits.switch.protocol import PACKET_CODES, PORT, Address


def add_options(parser: Parser) -> None:
    parser.add_example(
        "fewbits switch --workers 4 &\n"
        "  fewbits train --workers 4 --collective switch --aggregator 127.0.0.1:48320\n"
        "  kill -USR1 %1   # prints the statistics"
    )
    add = parser.add_argument
    add("--bind", default=f"127.0.0.1:{PORT}", metavar="HOST:PORT",
        help=f"where to listen, port 0 for any (default: 127.0.0.1:{PORT})")  # fmt: skip
    add("--workers", type=up_to(MOST_WORKERS), required=True, metavar="N",
        help=f"workers of a job, 1 to {MOST_WORKERS}")  # fmt: skip
    add("--slots", type=up_to(MOST_SLOTS), default=SLOTS, metavar="N",
        help=f"packets of a worker under way at once (default: {SLOTS})")  # fmt: skip
    add("--chunk", type=up_to(MOST_PACKET_CODES), default=PACKET_CODES, metavar="N",
        help=f"the most codes in a packet (default: {PACKET_CODES})")  # fmt: skip
    add("--idle", type=float, default=IDLE, metavar="S",
        help="seconds of silence after which another job may begin "
        f"(default: {IDLE:g})")  # fmt: skip
    add("--key-file", type=Path, metavar="F",
        help="the key that workers must have, at least 16 bytes "
        f"(default: that of {KEY_VARIABLE})")  # fmt: skip
    add("--insecure", action="store_true",
        help="listen to other machines without a key: anyone may join")  # fmt: skip


def run(options: argparse.Namespace) -> None:
    setup = AggregatorSetup(options.workers, options.slots, options.chunk, options.idle)

    def listening(own: Aggregator) -> None:
        about = {"address": str(own.address), "memory_bytes": own.memory_bytes}
        _say("listening", about, service.greeting(own), json=options.json)

    def asked(own: Aggregator) -> None:
        _say("statistics", own.report(), service.statistics(own), json=options.json)

    service.run(
        Address.of(options.bind),
        setup,
        key=chosen_key(key_file=options.key_file),
        insecure=options.insecure,
        listening=listening,
        asked=asked,
    )


def _say(event: str, about: Mapping[str, object], text: str, *, json: bool) -> None:
    if json:
        print_json({"event": event, **about})
    else:
        print(text)
    sys.stdout.flush()
