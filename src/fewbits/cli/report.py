"""`fewbits report`: a page made anew from result files, without computing anything."""

import argparse
from pathlib import Path

from fewbits.cli.console import Subcommands, add_command, print_json
from fewbits.errors import SpecError


def register(commands: Subcommands) -> None:
    """Add the command's parser."""
    parser = add_command(
        commands,
        "report",
        summary="the page of a folder of lab results, or of a result of fewbits train",
        example="fewbits report results\n  fewbits report run.json run.html",
        run=run,
    )
    parser.add_argument(
        "input", metavar="RESULTS", help="a folder of 'fewbits lab', or a JSON file of 'train'"
    )
    parser.add_argument(
        "output", nargs="?", metavar="OUT.html", help="the page of a file; a folder has index.html"
    )


def run(options: argparse.Namespace) -> None:
    """Write the page and say where it is."""
    results = Path(options.input)
    if results.is_dir():
        if options.output is not None:
            raise SpecError(f"the page of a folder is {results / 'index.html'}: leave out OUT.html")
        from fewbits.lab import folder
        from fewbits.train.extras import check_installed

        check_installed("matplotlib", "lab")
        written = folder.build(results)
    else:
        if options.output is None and not results.exists():
            raise SpecError(f"{results}: there is no such folder or file")
        if options.output is None:
            raise SpecError("name the page to write: fewbits report RESULT.json OUT.html")
        from fewbits.report import write

        written = Path(options.output)
        write(results, written)
    if options.json:
        print_json({"page": str(written)})
    else:
        print(f"wrote {written}")
