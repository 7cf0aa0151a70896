"""Blocks of a page: found, made anew, put back."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]  # of the checkout
MARKED = re.compile(
    r"^<!-- measured: (?P<name>\S+) -->\n(?P<body>.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE
)
_BEGIN = re.compile(r"^<!-- measured: (?P<name>\S+) -->$", re.MULTILINE)
Block = Callable[[], str]


def stale(text: str, blocks: Mapping[str, Block]) -> list[str]:
    """The names of blocks that are not as they would be made now, missing, or there twice."""
    found: dict[str, list[str]] = {}
    for block in MARKED.finditer(text):
        found.setdefault(block["name"], []).append(block["body"])
    made = {name: [block() + "\n"] for name, block in blocks.items()}
    return sorted(name for name in found.keys() | made.keys() if found.get(name) != made.get(name))


def refused(text: str, blocks: Mapping[str, Block]) -> list[str]:
    """The faults in a page's marks, which writing cannot mend."""
    names = Counter(mark["name"] for mark in _BEGIN.finditer(text))
    return [
        *(f"{name} is there {count} times" for name, count in names.items() if count > 1),
        *(f"nothing makes {name}" for name in names if name not in blocks),
    ]


def renewed(text: str, blocks: Mapping[str, Block]) -> str:
    """The page with its blocks made anew; what nothing makes stays, and stays stale."""

    def made(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in blocks:
            return found[0]
        return f"<!-- measured: {name} -->\n{blocks[name]()}\n<!-- end -->"

    return MARKED.sub(made, text)
