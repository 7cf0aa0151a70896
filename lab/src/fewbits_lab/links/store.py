"""Results in a folder: one JSON file that grows by a setting at a time."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fewbits.errors import SpecError
from fewbits_lab.links.setting import LinkSetting

KIND, _VERSION = "fewbits bench link", 1
NAME = "results.json"

_Result = dict[str, Any]


class LinkStore:
    """The file of a folder, or nothing at all without a folder."""

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / NAME
        self.results: list[_Result] = []
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            self.results = _read(self.path)

    def find(self, setting: LinkSetting, contenders: Sequence[str]) -> _Result | None:
        """A result with at least these contenders and repetitions."""
        for result in self.results:
            there = {row["contender"] for row in result["contenders"]}
            enough = result["repeats"] >= setting.repeats and result["warm_up"] >= setting.warm_up
            if _key(result) == _asked(setting) and enough and there >= set(contenders):
                return result
        return None

    def add(self, result: _Result) -> None:
        """Keep a result instead of an earlier one of the same link; the file is always whole."""
        self.results = [own for own in self.results if _key(own) != _key(result)] + [result]
        if self.path is not None:
            text = json.dumps(document(self.results), indent=1, allow_nan=False) + "\n"
            new = self.path.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.replace(self.path)


def document(results: Sequence[_Result]) -> dict[str, Any]:
    """The content of the file."""
    return {"kind": KIND, "version": _VERSION, "settings": list(results)}


def _read(path: Path) -> list[_Result]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SpecError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict) or (found.get("kind"), found.get("version")) != (KIND, _VERSION):
        raise SpecError(f"{path} holds other results: choose another --out")
    settings: list[_Result] = found["settings"]
    return settings


def _key(result: _Result) -> tuple[Any, ...]:
    names = ("params_asked", "ranks", "rate_bits_per_second", "latency_seconds", "loss")
    return tuple(result[name] for name in names)


def _asked(setting: LinkSetting) -> tuple[Any, ...]:
    link = setting.link
    return setting.params, setting.ranks, link.rate, link.latency, link.loss
