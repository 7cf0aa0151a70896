"""`fewbits train`: trains a model once for each operator and compares bytes, time and accuracy.

`python -m fewbits.train` is this command too: torchrun starts it as every rank.
"""

import argparse
from pathlib import Path

from fewbits.cli.console import Parser, Renamed, print_json
from fewbits.errors import SpecError
from fewbits.session.options import COLLECTIVES
from fewbits.train import compare, rank, results, settings, table


def add_options(parser: Parser) -> None:
    """The options that make a `TrainSettings`, `--report`, and `--events` for our own ranks."""
    parser.add_example(
        "fewbits train\n"
        "  fewbits train --link 100Mbit --model mlp\n"
        "  fewbits train --operator none --operator natural --report natural.html\n"
        "  fewbits train --link 100Mbit --workers 4 --nodes 2 --model mlp\n"
        "  fewbits train --local-steps 16 --outer nesterov --operator none --operator natural\n"
        "  torchrun --nnodes 2 --nproc-per-node 1 --rdzv-endpoint HOST:29400 -m fewbits.train"
    )
    add = parser.add_argument
    add("--operator", "--uplink", action="append", metavar="SPEC", help="repeatable; none, "
        "fp16-hook, powersgd:rank=4, tiny, low-rank, two-bit, one-bit, auto or a spec (default: "
        "none, fp16-hook and natural; with --link also natural:coder=rans and auto)")  # fmt: skip
    add("--downlink", metavar="SPEC", help="operator of the means (default: the "
        "same if it is unbiased or has feedback, else natural, coded if it is)")  # fmt: skip
    add("--feedback", metavar="METHOD", help="memory that corrects operators: ef14, "
        "ef14:momentum=0.9, ef21, diana or ef-bv (default: none)")  # fmt: skip
    add("--collective", choices=COLLECTIVES, default="sharded",
        help="default: sharded; star is the paper's Algorithm 1, with one master")  # fmt: skip
    add("--aggregator", action="append", metavar="HOST:PORT", help="repeatable; a running "
        "`fewbits switch` for --collective switch (default: one on this machine)")  # fmt: skip
    add("--local-steps", type=int, metavar="H", help="train alone for H steps, then exchange "
        "changes (default: exchange gradients in every step)")  # fmt: skip
    add("--outer", metavar="RULE", help="the step with the mean change: sgd averages, nesterov "
        "is DiLoCo's (default: sgd)")  # fmt: skip
    add("--link", metavar="RATE", help="emulated link of every worker, each way, such as 100Mbit, "
        "in network namespaces, without root (default: none, the loopback as it is)")  # fmt: skip
    add("--nodes", type=int, metavar="N", help="split the workers in N nodes: only what goes "
        "between nodes is compressed, and a --link is a node's (default: none)")  # fmt: skip
    add("--workers", type=int, default=2, metavar="N", help="local processes (default: 2)")
    add("--data", default="digits", metavar="DIR", help="digits, or a folder with MNIST's idx "
        "files, CIFAR-10 as npz or input.txt (default: digits)")  # fmt: skip
    add("--model", choices=settings.MODEL_NAMES, help="default: cnn, for text gpt")
    add("--epochs", type=int, metavar="N", help="default: 10 on digits (mlp: 6), else 2")
    add("--batch-size", type=int, metavar="N", help="of all workers together (default: 64; "
        "mlp 128, gpt 32)")  # fmt: skip
    add("--lr", type=float, metavar="X", help="learning rate (default: 0.05; mlp 0.1, gpt 0.002)")
    add("--momentum", type=float, default=0.9, metavar="X", help="default: 0.9")
    add("--seed", type=int, default=0, metavar="N", help="default: 0")
    add("--threads", type=int, default=1, metavar="N", help="codec threads (default: 1)")
    add("--checkpoint", metavar="DIR", help="keep every epoch's state here")
    add("--resume", action="store_true", help="continue from the checkpoint")
    add("--report", metavar="OUT.html", help="write a page, and its numbers as JSON beside it")
    add("--events", action="store_true", help=argparse.SUPPRESS)
    add("--master", action=Renamed, dest="downlink")
    add("--scheme", action=Renamed, dest="collective", choices=COLLECTIVES)


def run(options: argparse.Namespace) -> None:
    """Train as one rank, or all of them; print the table and write the report.

    Raises `PeerError` if a run has failed, after the results of the others.
    """
    _check_report(options.report)
    failure = None
    if rank.is_rank():
        chosen = settings.from_options(options, workers=rank.world_size())
        if chosen.link is not None:
            raise SpecError("--link is for workers of this machine: torchrun's have a network")
        document = rank.run(chosen, events=options.events)
    else:
        document, failure = compare.run(settings.from_options(options))
    if document is not None:
        _publish(document, options)
    if failure is not None:
        raise failure


def _publish(document: compare.ComparisonDocument, options: argparse.Namespace) -> None:
    text = table.render(document)
    if options.report is not None:
        from fewbits import report

        page = Path(options.report)
        numbers = page.with_suffix(".json")
        results.write(document, numbers)
        report.write(numbers, page)
        text = f"{text}\n\nreport: {page}, numbers: {numbers}"
    if options.json:
        print_json(document)
    else:
        print(text)


def _check_report(path: str | None) -> None:
    """Refuse a report that could not be written, before the training and not after it."""
    if path is None:
        return
    if not path.endswith(".html"):
        raise SpecError(f"--report must name an .html file, got {path}")
    if not Path(path).resolve().parent.is_dir():
        raise SpecError(f"--report {path}: the folder does not exist")
