"""`fewbits train`: a real model, once for each operator, and what each of them cost and saved."""

import argparse

from fewbits.cli.console import Subcommands, add_command, print_json, say
from fewbits.train import compare, settings

FAILED = 1


def register(commands: Subcommands) -> None:
    """Add the command's parser."""
    parser = add_command(
        commands,
        "train",
        summary="train a model with several workers, once for each operator, and compare",
        example="fewbits train\n"
        "  fewbits train --operator none --operator natural --report natural.html\n"
        "  fewbits train --local-steps 16 --outer nesterov --operator none --operator natural\n"
        "  torchrun --nnodes 2 --nproc-per-node 1 --rdzv-endpoint HOST:29400 -m fewbits.train",
        run=run,
    )
    settings.add_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Train, print the table, write the report; exit code 1 where a run fails."""
    chosen = settings.from_options(options)
    compare.check_report(options.report)
    document, failure = compare.run(chosen)
    if document is not None:
        text = compare.publish(document, options.report)
        if options.json:
            print_json(document)
        else:
            print(text)
    if failure is not None:
        say(str(failure))
        raise SystemExit(FAILED)
