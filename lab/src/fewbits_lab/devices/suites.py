"""The tests that compare whole frames and whole runs of a device's backend with the CPU's."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ROOT_OF_TESTS = Path(__file__).resolve().parents[4]
SUITES = {
    "frames": "tests/device/test_frames.py",
    "ddp": "tests/distributed/test_streams.py",
    "fsdp and localsgd": "tests/distributed/test_stream_adapters.py",
}
_BAD = "failure", "error", "skipped"


class SuiteFound(NamedTuple):
    """Tests that have passed, by function; those that have not; frames by operator and format."""

    passed: dict[str, int]
    others: list[str]
    frames: dict[str, int]


def tested(name: str) -> dict[str, Any]:
    """All tests of a suite under the interpreter, those marked soak too."""
    environment = {own: text for own, text in os.environ.items() if own != "TRITON_INTERPRET"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = ["-q", "-n", "0", "--soak", "-o", "junit_family=xunit1", f"--junitxml={report}"]
        subprocess.run(
            [sys.executable, "-m", "pytest", *words, SUITES[name]],
            cwd=ROOT_OF_TESTS, env=environment, check=False,
        )  # fmt: skip
        return read(report)._asdict()


def read(report: Path) -> SuiteFound:
    """What pytest's report says."""
    passed: Counter[str] = Counter()
    frames: Counter[str] = Counter()
    others = []
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        if any(case.find(bad) is not None for bad in _BAD):
            others.append(name)
            continue
        passed[name.partition("[")[0]] += 1
        for own in case.iter("property"):
            if own.get("name") == "frames":
                what, _, count = own.get("value", "").rpartition(" ")
                frames[what] += int(count)
    return SuiteFound(dict(sorted(passed.items())), sorted(others), dict(sorted(frames.items())))
