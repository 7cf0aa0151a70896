"""The operator in CONTRIBUTING.md: one file, one row, one line of the changelog, two commands.

It is added to a copy of the tree, in which the suites and the checks of documents then run.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPERATOR, ROWS, CHANGES = "src/fewbits/operators/upper16.py", "tests/cases.py", "CHANGELOG.md"
BY_HAND = {OPERATOR, ROWS, CHANGES}
LEFT_OUT = (".git", ".venv", "build", "dist", "_build", "__pycache__", ".*_cache", ".hypothesis")
SITE = """
import sys
from importlib.machinery import PathFinder

sys.meta_path.insert(0, PathFinder)
"""
"""An editable install would put the modules of this checkout before those of the copy."""


class Copy:
    """A copy of the tree."""

    def __init__(self, root: Path) -> None:
        self.root, self._site = root / "tree", root / "site"
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*LEFT_OUT))
        self._site.mkdir()
        (self._site / "sitecustomize.py").write_text(SITE)

    def add(self, operator: str, row: str) -> None:
        """Do what a contributor does by hand."""
        (self.root / OPERATOR).write_text(operator)
        cases = (self.root / ROWS).read_text()
        cases = cases.replace("\nCASES = (\n", f"\nCASES = (\n{row.strip()},\n")
        imported = "from fewbits.operators.upper16 import Upper16\n"
        (self.root / ROWS).write_text(cases.replace("\n@dataclass", f"{imported}\n@dataclass", 1))
        changes = (self.root / CHANGES).read_text()
        (self.root / CHANGES).write_text(changes.replace("\n- ", "\n- The operator.\n- ", 1))

    def run(self, *arguments: str) -> str:
        """What a program prints; its own modules come first."""
        paths = [self._site, self.root / "src", self.root / "lab" / "src", self.root / "tests"]
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, capture_output=True, text=True,
            timeout=300, env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        )  # fmt: skip
        assert done.returncode == 0 or "pytest" in arguments, done.stderr
        return done.stdout

    def suite(self, *arguments: str) -> str:
        """The last line of some tests."""
        options = ("-q", "-p", "no:cacheprovider", "-n", "0")
        return self.run("-m", "pytest", *options, *arguments).strip().splitlines()[-1]

    def files(self) -> dict[str, str]:
        """Digests of all files."""
        return {
            path.relative_to(self.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.root.rglob("*")
            if path.is_file() and not {"__pycache__", ".hypothesis"} & set(path.parts)
        }


def example() -> tuple[str, str]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    operator, row = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return operator, row


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> tuple[Copy, set[str]]:
    """A copy in which the operator is, and the files that the two commands have written."""
    if find_spec("fewbits_lab") is None:
        pytest.skip("the tables are written by the laboratory")
    copy = Copy(tmp_path_factory.mktemp("contributing"))
    before = copy.files()
    copy.add(*example())
    by_hand = {name for name, digest in copy.files().items() if before.get(name) != digest}
    assert by_hand == BY_HAND
    for command in (("tests/golden/regenerate.py",), ("-m", "fewbits_lab.rendered", "--write")):
        copy.run(*command)
    after = copy.files()
    assert before.keys() <= after.keys()
    return copy, {name for name, digest in after.items() if before.get(name) != digest} - by_hand


def test_two_commands_write_frames_and_tables_and_nothing_else(
    added: tuple[Copy, set[str]],
) -> None:
    _, written = added
    frames = {name for name in written if name.startswith("tests/golden/good/upper16/")}
    assert len(frames) == 8  # for four dtypes the frame and what it holds
    tables = {"README.md", "docs/format.md", "docs/speed.md"}
    assert written - frames == {"tests/golden/SHA256SUMS", *tables}


def test_the_operator_passes_the_whole_conformance_suite(added: tuple[Copy, set[str]]) -> None:
    copy, _ = added
    last = copy.suite("tests/conformance", "-k", "upper16")
    assert re.fullmatch(r"[1-9]\d+ passed(, \d+ skipped)?, \d+ deselected in .*", last), last


def test_its_imports_keep_the_contracts(added: tuple[Copy, set[str]]) -> None:
    copy, _ = added
    printed = copy.run("-c", "from importlinter.cli import lint_imports_command as lint; lint()")
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", printed), printed


@pytest.mark.soak
def test_all_that_reads_the_registry_takes_it(added: tuple[Copy, set[str]]) -> None:
    copy, _ = added
    assert copy.run("-m", "fewbits_lab.rendered", "--check") == ""
    assert "| `upper16` | α = 2⁻¹⁴ | – |" in (copy.root / "README.md").read_text()
    speeds = (copy.root / "docs/speed.md").read_text()
    assert re.search(r"\| `upper16` \| the upper 16 bits .* \| – \| – \| – \|", speeds)
    assert "| 32790 | `upper16` | upper | none |" in (copy.root / "docs/format.md").read_text()
    last = copy.suite("tests/meta", "tests/unit/test_registry.py")
    assert re.fullmatch(r"[1-9]\d+ passed(, \d+ (skipped|deselected))* in .*", last), last
    last = copy.suite("tests/golden", "-k", "upper16 or list_of_files or every_operator")
    assert re.fullmatch(r"[1-9]\d* passed, \d+ deselected in .*", last), last
    last = copy.suite("tests/lab/test_numbers.py", "tests/integration/test_examples.py", "-k",
                      "row_in_the_readme or stale or golden or chapter")  # fmt: skip
    assert re.fullmatch(r"[1-9]\d* passed(, \d+ skipped)?, \d+ deselected in .*", last), last


def test_the_suite_refuses_an_operator_whose_promise_is_too_good(
    added: tuple[Copy, set[str]],
) -> None:
    copy, _ = added
    operator, _ = example()
    promise = "(2**kept + 1) ** -2"
    assert promise in operator
    path = copy.root / OPERATOR
    path.write_text(operator.replace(promise, f"{promise} / 2"))
    try:
        last = copy.suite("tests/conformance/test_guarantees.py", "-k", "upper16")
    finally:
        path.write_text(operator)
    assert " failed" in last, last
