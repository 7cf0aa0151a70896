"""`fewbits-lab federation`: bytes of a Flower federation on this machine, counted on the wire."""

import argparse
from dataclasses import asdict

from fewbits.cli.console import Parser, count, print_json, table
from fewbits.train.extras import check_installed

_OPERATORS, _ROUNDS, _SIDE = ("none", "natural", "natural:coder=rans"), 4, 1000


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits-lab federation none natural --rounds 2")
    add = parser.add_argument
    add("operators", nargs="*", metavar="SPEC",
        help=f"operators, none for plain Flower (default: {' '.join(_OPERATORS)})")  # fmt: skip
    add("--rounds", type=count, default=_ROUNDS, metavar="N", help=f"default: {_ROUNDS}")
    add("--side", type=count, default=_SIDE, metavar="N",
        help=f"the model is a matrix of N by N weights (default: {_SIDE})")  # fmt: skip


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    check_installed("flwr", "flower")
    from fewbits_lab.federation.measure import measure

    operators = options.operators or _OPERATORS
    found = measure(operators, rounds=options.rounds, side=options.side)
    if options.json:
        print_json([asdict(own) for own in found])
        return
    cells = [
        (one.operator, str(one.round), str(one.node), f"{one.up:,}", f"{one.down:,}")
        for own in found
        for one in own.rounds
    ]
    titles = ("operator", "round", "node", "bytes up", "bytes down")
    print(table(titles, cells, right=",".join(titles[1:])))
