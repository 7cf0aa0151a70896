"""`fewbits verify`: compares a device with the CPU, bit for bit, and writes a report to share."""

import argparse
import json
from importlib.util import find_spec
from pathlib import Path

from fewbits.backend.buffers import without_triton
from fewbits.cli.console import Parser, ProgressBar, count, print_json, table
from fewbits.errors import DisagreementError, MissingExtraError, SpecError


def add_options(parser: Parser) -> None:
    parser.add_example(
        "fewbits verify --device cuda --ranks 2 --report verify.html\n"
        "  fewbits verify --device cpu   # no device: Triton's interpreter"
    )
    add = parser.add_argument
    add("--device", choices=("cuda", "cpu"), help="cuda (ROCm too) or cpu, the interpreter "
        "(default: cuda if torch sees a device)")  # fmt: skip
    add("--ranks", type=count, default=2, metavar="N", help="processes of the comparison of "
        "ranks, from 2 on (default: 2)")  # fmt: skip
    add("--thorough", action="store_true", help="all vectors at all lengths: 14 times as many")
    add("--report", metavar="OUT.html", help="write a page, and its numbers as JSON beside it")


def run(options: argparse.Namespace) -> None:
    """Print the table or the JSON; raise `DisagreementError` if anything differs."""
    if options.ranks < 2:
        raise SpecError(f"--ranks must be at least 2, got {options.ranks}")
    if options.report is not None and not options.report.endswith(".html"):
        raise SpecError(f"--report must name an .html file, got {options.report}")
    _check_installed()
    from fewbits.verify import document, page

    device = document.chosen_device(options.device)
    total = document.steps(device, options.ranks, thorough=options.thorough)
    with ProgressBar(f"verifying {device}", total) as progress:
        found = document.verified(
            device, options.ranks, thorough=options.thorough, advance=progress.advance
        )
    if options.report is not None:
        place = Path(options.report)
        place.write_text(page.render(found), encoding="utf-8")
        place.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print_json(found)
    else:
        if found["note"]:
            print(f"{found['note']}\n")
        print(table(("part", "result", "how much"), page.text(found)))
        for line in page.differences(found):
            print(f"  {line}")
        print(f"\n{page.verdict(found)} ({found['seconds']:.0f} s)")
    if not found["held"]:
        raise DisagreementError(f"verify: {page.verdict(found)}")


def _check_installed() -> None:
    # Not by importing them: Triton decides then how it runs kernels.
    if find_spec("torch") is None:
        raise MissingExtraError.of("fewbits verify needs torch", "torch")
    if find_spec("triton") is None:
        raise without_triton("fewbits verify")
