"""What must hold of the workflows: no code by a name that can move, no rights to spare."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
PINNED = re.compile(r"\s*(?:- )?uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
KNOWN = {
    "actions/checkout",
    "actions/download-artifact",
    "actions/setup-python",
    "actions/upload-artifact",
    "pypa/cibuildwheel",
    "pypa/gh-action-pypi-publish",
}


def steps(jobs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in jobs.values():
        yield from job.get("steps", ())


def unpinned(text: str) -> Iterator[str]:
    """Lines that use an action by anything but a commit and the version that it is."""
    for line in text.splitlines():
        if re.search(r"\buses\s*:", line) and not PINNED.fullmatch(line):
            yield f"not pinned by 40 hex digits with its version: {line.strip()}"


def wide(workflow: dict[str, Any]) -> Iterator[str]:
    """Rights beyond reading, but for the one job that publishes."""
    if workflow.get("permissions") != {"contents": "read"}:
        yield "permissions are not contents: read by default"
    for name, job in workflow["jobs"].items():
        if job.get("permissions", {}) not in ({}, {"contents": "read"}) and name != "publish":
            yield f"job {name} has more rights than to read"
    if workflow["jobs"].get("publish", {}).get("permissions", {}) not in (
        {},
        {"id-token": "write"},
    ):
        yield "the job that publishes has more rights than its identity"


def faults(text: str) -> list[str]:
    """All that is wrong with a workflow."""
    workflow = yaml.safe_load(text)
    events = workflow.get("on", workflow.get(True))  # YAML 1.1 reads the key `on` as true
    found = [*unpinned(text), *wide(workflow)]
    if "pull_request_target" in events:
        found.append("pull_request_target runs with secrets on code of others")
    used = [step for step in steps(workflow["jobs"]) if "uses" in step]
    found += [f"unknown action {s['uses']}" for s in used if s["uses"].split("@")[0] not in KNOWN]
    for step in used:
        given = step.get("with", {})
        if (
            step["uses"].startswith("actions/checkout@")
            and given.get("persist-credentials") is not False
        ):
            found.append("a checkout leaves its token behind")
    if "publish" in workflow["jobs"]:
        found += released(workflow, text)
    return found


def released(workflow: dict[str, Any], text: str) -> Iterator[str]:
    """What a workflow that publishes must also obey."""
    if re.search(r"\bcache\b", text.replace("no cache", "")):
        yield "a release must not read a cache"
    (publish,) = (s for s in steps(workflow["jobs"]) if "pypi-publish" in s.get("uses", ""))
    given = publish.get("with", {})
    if {"password", "user"} & given.keys() or "secrets." in text:
        yield "a release needs no secret: publishing is trusted"
    if given.get("attestations") is not True:
        yield "what is published is not attested"
    if "--extra-index-url" in text or "--index-url" in text:
        yield "a release has one index"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_obey(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


def test_there_are_workflows() -> None:
    assert {path.name for path in WORKFLOWS} >= {"ci.yml", "nightly.yml", "release.yml"}


RELEASE = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        (r"actions/checkout@[0-9a-f]{40} # v[\d.]+", "actions/checkout@v6", "not pinned"),
        (r"(actions/checkout@[0-9a-f]{39})[0-9a-f]", r"\1", "not pinned"),
        (r"(actions/checkout@[0-9a-f]{40}) # v[\d.]+", r"\1", "not pinned"),
        (r"actions/checkout@", "somebody/checkout@", "unknown action"),
        (r"contents: read", "contents: write", "contents: read"),
        (r"  push:", "  pull_request_target:\n  push:", "pull_request_target"),
        (r"id-token: write", "id-token: write\n      contents: write", "more rights"),
        (r"persist-credentials: false", "persist-credentials: true", "token"),
        (r"attestations: true", "attestations: false", "attested"),
        (r"attestations: true", "attestations: true\n          password: x", "secret"),
        (r"(python-version: [^\n}]+)", r"\1, cache: pip", "cache"),
        (r"--require-hashes", "--extra-index-url x --require-hashes", "one index"),
    ],
)
def test_a_planted_fault_is_seen(good: str, bad: str, said: str) -> None:
    planted = re.sub(good, bad, RELEASE, count=1)
    assert planted != RELEASE
    assert any(said in fault for fault in faults(planted))


def test_fuzzing_ends_within_half_of_its_job() -> None:
    """Its seconds are shared among the targets, so that a new target does not add to them."""
    job = yaml.safe_load((WORKFLOWS[0]).read_text(encoding="utf-8"))["jobs"]["fuzz-smoke"]
    script = (ROOT / ".ci" / "fuzz").read_text(encoding="utf-8")
    (seconds,) = re.findall(r"^seconds=\$\{1:-(\d+)\}", script, re.MULTILINE)
    assert any(".ci/fuzz" in step.get("run", "").split() for step in job["steps"])
    assert 2 * int(seconds) <= 60 * job["timeout-minutes"]


@pytest.mark.parametrize(("ends", "code"), [("exit 0", 0), ("exit 1", 123)])
def test_fuzzing_fails_with_one_target(tmp_path: Path, ends: str, code: int) -> None:
    for name, last in (("good", "exit 0"), ("other", ends)):
        target = tmp_path / f"fuzz_{name}"
        target.write_text(f"#!/bin/sh\necho given $1\n{last}\n")
        target.chmod(0o755)
    words = [ROOT / ".ci" / "fuzz", "40", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "2 targets, 40 seconds each" in done.stdout
    assert "good: given -max_total_time=40" in done.stdout
    assert ("other FAILED" in done.stdout) == bool(code)
