"""Runs the tests that `tests/compatibility.toml` names and records what they found.

    python -m fewbits_lab.studies.compatibility.run [FILE ...]

writes `result.json`, after each file of tests. A row whose test does not pass, or is skipped as a
package is missing, is an error and leaves the record. With names of files, the rows of others keep
what was found before.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fewbits.errors import SpecError
from fewbits_lab.store import write

COMPATIBILITY = Path(__file__).with_name("result.json")
CHECKOUT = Path(__file__).resolve().parents[5]
PACKAGES = ("torch", "transformers", "lightning", "accelerate", "ray")


def wanted(root: Path = CHECKOUT) -> list[dict[str, str]]:
    """The rows of the page, as the tests' table has them."""
    rows: list[dict[str, str]]
    rows = tomllib.loads((root / "tests/compatibility.toml").read_text(encoding="utf-8"))["row"]
    return rows


def proved(tests: Sequence[str], root: Path = CHECKOUT) -> tuple[dict[str, str], dict[str, str]]:
    """What each test that has passed told, an empty text if nothing; and why others have not."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "--soak", "-p", "no:cacheprovider", "-o", "junit_family=xunit1"]
        options += [f"--junitxml={report}"]
        subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=root, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    found = {_node(case): case for case in cases}
    faults = {test: why for test in tests if (why := _fault(found.get(test)))}
    return {test: _told(found[test]) for test in tests if test not in faults}, faults


def _fault(case: ElementTree.Element | None) -> str:
    """Why a test proves nothing; an empty text if it has passed."""
    if case is None or any(case.find(bad) is not None for bad in ("failure", "error")):
        return "has not passed"
    skipped = case.find("skipped")
    return "" if skipped is None else f"was skipped: {skipped.get('message')}"


def _node(case: ElementTree.Element) -> str:
    file = case.get("classname", "").replace(".", "/")
    return f"{file}.py::{case.get('name')}"


def _told(case: ElementTree.Element) -> str:
    told = [own for own in case.iter("property") if own.get("name") == "message"]
    return told[0].get("value", "") if told else ""


def updated(
    rows: Sequence[dict[str, str]], known: Sequence[dict[str, Any]], told: dict[str, str]
) -> list[dict[str, Any]]:
    """The record: rows whose tests have told something now, or that are as they were before."""
    before = {own["name"]: {k: v for k, v in own.items() if k != "message"} for own in known}
    words = {own["name"]: own.get("message", "") for own in known}
    done = []
    for own in rows:
        test = own.get("test", "")
        if test and test not in told and before.get(own["name"]) != own:
            continue  # not proved
        message = told.get(test, words.get(own["name"], ""))
        if own["verdict"] == "refused" and not message:
            raise SpecError(f"the test of {own['name']} does not tell the message")
        done.append(own | ({"message": message} if message else {}))
    return done


def _save(rows: Sequence[dict[str, str]], told: dict[str, str], without: Sequence[str]) -> None:
    """Put what was told into the file, and take out the rows of these tests."""
    known: list[dict[str, Any]] = []
    if COMPATIBILITY.is_file():
        known = json.loads(COMPATIBILITY.read_text(encoding="utf-8"))["rows"]
    known = [own for own in known if own.get("test") not in without]
    versions = {package: version(package).partition("+")[0] for package in PACKAGES}
    document = {"python": sys.version.split()[0], "versions": versions}
    whole = document | {"rows": updated(rows, known, told)}
    write(COMPATIBILITY, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")


def main() -> None:
    rows, faults = wanted(), list[str]()
    tests: dict[str, list[str]] = {}
    for own in rows:
        if "test" in own:
            tests.setdefault(own["test"].partition("::")[0], []).append(own["test"])
    for file in sys.argv[1:] or tests:
        told, bad = proved(tests[file])
        _save(rows, told, tests[file])
        faults += [f"{test} {why}" for test, why in bad.items()]
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
