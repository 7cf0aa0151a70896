"""The compatibility page is what tests have found: no row without a test, none that has not run."""

import ast
import json
from pathlib import Path

import pytest

from fewbits_lab.studies.compatibility import run, show
from fewbits_lab.tables import markdown

ROOT = Path(__file__).parents[2]
ROWS = run.wanted(ROOT)
RECORD = json.loads(run.COMPATIBILITY.read_text(encoding="utf-8"))
KEYS = {"yes": {"how", "test"}, "refused": {"how", "test"}, "n/a": {"reason"}}
LOOPS = (
    "compile` before", "compile` after", "static_graph", "unused", "unfrozen", "tied", "clipping",
    "accumulation", "no_sync", "Join", "bfloat16", "GradScaler", "LoRA", "experts", "GAN",
    "complex", "sparse", "float64", "mixed dtypes", "subgroups", "LBFGS", "torch.save", "DCP",
    "elastic", "Hugging Face", "Lightning", "Accelerate", "Ray",
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_row_has_a_test_that_exists_or_a_reason(row: dict[str, str]) -> None:
    assert row.keys() == {"name", "verdict"} | KEYS[row["verdict"]]
    if "test" not in row:
        return
    file, _, node = row["test"].partition("::")
    name, _, place = node.partition("[")
    text = (ROOT / file).read_text(encoding="utf-8")
    functions = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)]
    (found,) = [one for one in functions if one.name == name]
    marks = " ".join(map(ast.unparse, found.decorator_list))
    assert ("parametrize" in marks) == bool(place)
    if place:  # pytest joins the values of several parameters by hyphens
        whole = place.removesuffix("]")
        parts = [whole] if whole in text else whole.split("-")
        assert all(part in text for part in parts), whole


def test_every_loop_that_users_ask_for_has_a_row() -> None:
    names = [row["name"] for row in ROWS]
    assert len(set(names)) == len(names)
    assert not [loop for loop in LOOPS if not any(loop in name for name in names)]


def test_the_record_is_of_these_rows_and_every_refusal_tells_its_words() -> None:
    assert [{k: v for k, v in row.items() if k != "message"} for row in RECORD["rows"]] == ROWS
    for row in RECORD["rows"]:
        assert row["verdict"] != "refused" or row["message"]
        assert "\n" not in row.get("message", "")


def test_the_page_is_the_record() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    assert markdown(show.matrix(RECORD)) in page


def test_a_test_that_does_not_pass_leaves_no_record(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--soak', action='store_true')\n"
    )
    (tmp_path / "tests" / "test_own.py").write_text(
        "import pytest\n"
        "def test_bad():\n    assert False\n"
        "def test_skipped():\n    pytest.skip('no package')\n"
        "def test_good(record_property):\n    record_property('message', 'so it says')\n"
    )
    good, bad, skipped, absent = (
        f"tests/test_own.py::test_{name}" for name in ("good", "bad", "skipped", "absent")
    )
    told, faults = run.proved([good, bad, skipped], tmp_path)
    assert told == {good: "so it says"}
    assert faults == {bad: "has not passed", skipped: "was skipped: no package"}
    assert run.proved([absent], tmp_path) == ({}, {absent: "has not passed"})
    rows = [{"name": name, "verdict": "refused", "test": name} for name in (good, bad)]
    assert run.updated(rows, [], told) == [rows[0] | {"message": "so it says"}]
    kept = [rows[1] | {"message": "as it said"}]
    assert run.updated(rows, kept, told)[1:] == kept
    assert not run.updated([rows[1] | {"how": "otherwise"}], kept, {})  # it must run again
