"""`python -m fewbits_lab.rendered --write`, or `--check`, which fails if a page is stale."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from fewbits_lab.rendered.blocks import ROOT, Block, refused, renewed, stale
from fewbits_lab.rendered.pages import FIGURES, PAGES

_AGAIN = "python -m fewbits_lab.rendered --write"


def main() -> int:
    """Check or write all pages."""
    parser = argparse.ArgumentParser(prog="python -m fewbits_lab.rendered", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="name stale blocks; exit code 1 if any")
    what.add_argument("--write", action="store_true", help="write all blocks into their pages")
    options = parser.parse_args()
    found = [
        f"{page}: {wrong}"
        for page, blocks in PAGES.items()
        for wrong in settled(page, blocks, write=options.write)
    ]
    found += [wrong for page, draw in FIGURES.items() for wrong in drawn(page, draw, options.write)]
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


def drawn(page: str, draw: Block, write: bool, root: Path = ROOT) -> list[str]:
    """The faults of a figure, after drawing it if asked."""
    path, text = root / page, draw()
    if path.is_file() and path.read_text() == text:
        return []
    if not write:
        return [f"{page} is stale or missing: {_AGAIN}"]
    path.write_text(text)
    print(f"{page}: written")
    return []


def settled(page: str, blocks: Mapping[str, Block], *, write: bool, root: Path = ROOT) -> list[str]:
    """The faults of a page, after writing it if asked."""
    text = (root / page).read_text()
    if wrong := refused(text, blocks):
        return wrong
    if write and (new := renewed(text, blocks)) != text:
        (root / page).write_text(new)
        print(f"{page}: written")
        text = new
    return [f"{name} is stale or missing: {_AGAIN}" for name in stale(text, blocks)]


if __name__ == "__main__":
    sys.exit(main())
