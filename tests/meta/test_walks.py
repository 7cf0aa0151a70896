"""The walks in docs/architecture.md name files and functions that exist, in the order of calls."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import fewbits
from fewbits.core.plan import plan_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fewbits"
MOST = {"compress": 9, "backward": 14, "A round of Flower": 10}
Stop = tuple[str, str]


def walks() -> dict[str, list[Stop]]:
    """The stops of each walk: files of the package and functions in them."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    chapter = re.search(r"^## Three walks\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    assert chapter
    stop = r"^\d+\. `([\w/]+\.py)`, `([\w.]+)`: .+$"
    parts = re.split(r"\n\n(?=[^\d\n])", chapter[1])
    found = {name: part for name in MOST for part in parts if re.match(rf"\W*{name}", part)}
    return {name: re.findall(stop, found[name], re.MULTILINE) for name in MOST}


def names(body: list[ast.stmt], before: str = "") -> Iterator[str]:
    """Classes and functions, nested ones with the names around them."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield before + node.name
            yield from names(node.body, f"{before}{node.name}.")


@pytest.mark.parametrize("walk", MOST)
def test_every_stop_exists(walk: str) -> None:
    stops = walks()[walk]
    assert 5 < len(stops) <= MOST[walk]
    for file, function in stops:
        tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
        assert function in set(names(tree.body)), f"{file} has no {function}"


def test_compress_goes_the_way_that_is_written() -> None:
    called: list[Stop] = []
    package = Path(fewbits.__file__).parent

    def profile(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and package in path.parents:
            called.append((path.relative_to(package).as_posix(), frame.f_code.co_qualname))

    x = np.ones(1000, np.float32)
    plan_of.cache_clear()  # plans are made once
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        fewbits.compress(x, "natural", seed=1)
    finally:
        sys.setprofile(before)
    places = [called.index(stop) for stop in walks()["compress"]]
    assert places == sorted(places)
