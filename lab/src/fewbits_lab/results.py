"""The recorded results: each is a file beside its study, and part of the package.

A study's folder holds `result.json`; one with several results holds `result-NAME.json` for each.
The result is called as its folder, with the name of the file behind it: `feedback-cnn`.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

STUDIES = Path(__file__).resolve().parent / "studies"


@cache
def paths() -> dict[str, Path]:
    """The files of all recorded results, by name."""
    return {
        path.parent.name.replace("_", "-") + path.stem.removeprefix("result"): path
        for path in sorted(STUDIES.glob("*/result*.json"))
    }


@cache
def results(name: str) -> Any:
    """A recorded result."""
    return json.loads(paths()[name].read_text(encoding="utf-8"))
