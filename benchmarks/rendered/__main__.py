"""`python -m benchmarks.rendered --write`, or `--check`, which fails if a page is stale."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.rendered.blocks import ROOT, Block, refused, renewed, stale
from benchmarks.rendered.pages import PAGES


def main() -> int:
    """Check or write all pages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rendered", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="name stale blocks; exit code 1 if any")
    what.add_argument("--write", action="store_true", help="write all blocks into their pages")
    options = parser.parse_args()
    found = [
        f"{page}: {wrong}"
        for page, blocks in PAGES.items()
        for wrong in settled(page, blocks, write=options.write)
    ]
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


def settled(page: str, blocks: Mapping[str, Block], *, write: bool, root: Path = ROOT) -> list[str]:
    """What is wrong with a page, after writing it if that was asked and changes anything."""
    text = (root / page).read_text()
    if wrong := refused(text, blocks):
        return wrong
    if write and (new := renewed(text, blocks)) != text:
        (root / page).write_text(new)
        print(f"{page}: written")
        text = new
    again = "python -m benchmarks.rendered --write"
    return [f"{name} is stale or missing: {again}" for name in stale(text, blocks)]


if __name__ == "__main__":
    sys.exit(main())
