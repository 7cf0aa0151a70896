"""`python -m benchmarks.rendered --write`, or `--check`, which fails if a page is stale."""

import argparse
import sys

from benchmarks.rendered.blocks import ROOT, renewed, stale
from benchmarks.rendered.pages import PAGES


def main() -> int:
    """Check or write all pages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rendered", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="name stale blocks; exit code 1 if any")
    what.add_argument("--write", action="store_true", help="write all blocks into their pages")
    options = parser.parse_args()
    found = False
    for page, blocks in PAGES.items():
        text = (ROOT / page).read_text()
        names = stale(text, blocks)
        if options.write and names:
            (ROOT / page).write_text(renewed(text, blocks))
            names = stale((ROOT / page).read_text(), blocks)
            print(f"{page}: written")
        for name in names:
            print(f"{page}: {name} is stale or missing: python -m benchmarks.rendered --write")
        found = found or bool(names)
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
