"""The page on when not to compress: its tables are those of the results, losses included."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
PAGE = (ROOT / "docs" / "when-not.md").read_text()
LINKS = {(rate, ranks) for rate in (1e8, 1e9, 1e10, None) for ranks in (2, 4)}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("links_table")


def test_the_tables_on_the_page_are_made_of_the_results(tables: ModuleType) -> None:
    for table in tables.tables():
        assert table in PAGE


def test_every_link_was_measured_with_enough_rounds(tables: ModuleType) -> None:
    found = tables.settings()
    assert {(own["rate_bits_per_second"], own["ranks"]) for own in found} == LINKS
    for own in found:
        assert own["repeats"] >= 7
        assert all(row.get("replicas_agree") is not False for row in own["contenders"])


def test_the_race_was_run_by_all_with_the_same_grid(tables: ModuleType) -> None:
    found = json.loads((BENCHMARKS / "results" / "time-to-accuracy.json").read_text())
    race = [(run["name"], run["seed"]) for run in found["runs"] if run["part"] == "race"]
    names = {name for name, _ in race}
    assert {"none", "fp16-hook", "powersgd:rank=4", "tiny"} <= names
    assert sorted(race) == [(name, seed) for name in sorted(names) for seed in range(3)]
    tuned = {(run["name"], run["lr"]) for run in found["runs"] if run["part"] == "tune"}
    for name in names - tables.WITH_RATES_OF_PLAIN:
        assert {lr for own, lr in tuned if own == name} == set(found["rates"])
