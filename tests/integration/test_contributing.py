"""The operator in CONTRIBUTING.md passes the conformance suite: one file, one row."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = """
import sys

import fewbits.operators

fewbits.operators.__path__.append({folder!r})
sys.path.insert(0, {tests!r})

import cases
from cases import Case
from fewbits.operators.upper16 import Upper16

cases.CASES = ({row},)
cases.ROWS = [(case, format) for case in cases.CASES for format in case.formats]
cases.ROW_IDS = [f"{{case.id}}-{{format.name}}" for case, format in cases.ROWS]
"""


def conformance(tmp_path: Path, operator: str, row: str, file: str = "") -> str:
    """The last line of the suite or of one file, with this operator as the only row."""
    folder = tmp_path / "operators"
    folder.mkdir()
    (folder / "upper16.py").write_text(f'"""The upper half."""\n{operator}')
    plugin = PLUGIN.format(folder=str(folder), tests=str(ROOT / "tests"), row=row.strip())
    (tmp_path / "addition.py").write_text(plugin)
    paths = (str(tmp_path), os.environ.get("PYTHONPATH", ""))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "addition", "-p", "no:cacheprovider",
         "-n", "0", f"tests/conformance/{file}"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )  # fmt: skip
    return done.stdout.strip().splitlines()[-1]


def example() -> tuple[str, str]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    operator, row = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return operator, row


def test_the_operator_in_the_contributors_guide_passes_the_whole_suite(tmp_path: Path) -> None:
    last = conformance(tmp_path, *example())
    assert re.fullmatch(r"[1-9]\d+ passed(, \d+ skipped)? in .*", last), last


def test_the_suite_refuses_an_operator_whose_promise_is_too_good(tmp_path: Path) -> None:
    operator, row = example()
    promise = "(2**kept + 1) ** -2"
    assert promise in operator
    last = conformance(
        tmp_path, operator.replace(promise, f"{promise} / 2"), row, "test_guarantees.py"
    )
    assert " failed" in last, last
