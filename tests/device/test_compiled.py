"""Kernels as a device would get them: compiled here, looked at, and run by the emulator."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fewbits_lab.devices import spoiling, surviving
from fewbits_lab.devices.budget import applies, over_budget
from fewbits_lab.results import results
from fewbits_lab.studies.device import show

GLANCE = Path(__file__).with_name("glance.py")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    done = subprocess.run(
        [sys.executable, str(GLANCE)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_compiled_kernels_give_the_bytes_of_the_cpu(seen):
    assert seen["emulated"]["differences"] == []
    assert seen["emulated"]["launches"] > 20


def test_changed_instructions_are_seen(seen):
    assert seen["emulated"]["mutants"] >= 10
    assert seen["emulated"]["seen"] >= 0.8 * seen["emulated"]["mutants"]


def test_compiled_kernels_keep_to_their_budget_and_the_lint(seen):
    kernels = {name.split()[1] for name in seen["compiled"]}
    assert {own[0] for own in show.HOT.values()} <= kernels
    for name, own in seen["compiled"].items():
        assert own["faults"] == [], name
        assert own["over"] == [], name


def test_the_recorded_evidence_is_sound():
    """The result that docs render: nothing differs, spills, breaks the lint or the budget."""
    found = results("device")
    assert [text for own in found["emulated"].values() for text in own["differences"]] == []
    assert found["interpreted"]["verify"]["held"]
    rows = show.rows(found)
    hot = itertools.product(show.HOT, show.SHOWN_TARGETS)
    assert [path for path in hot if show.hot_row(found, *path) is None] == []
    assert [row["kernel"] for row in rows if row["faults"]] == []
    assert [row["kernel"] for row in rows if "hot" in row and row["hot"]["spills"]] == []
    assert [row["kernel"] for row in rows if over_budget(row)] == []


RELAY = "relay aligned {} exponent={} from={} onward=1 rare target=0 terms={} to={}"


@pytest.mark.parametrize(
    ("kernel", "is_known"),
    [
        (RELAY.format("exact", 8, 0, 0, 1), True),
        (RELAY.format("", 8, 0, 0, 1), False),  # divides
        (RELAY.format("exact nearest", 8, 0, 0, 1), False),
        (RELAY.format("exact", 8, 3, 1, 1), False),  # sums float16
        (RELAY.format("exact", 5, 0, 0, 3), False),
        ("natural_encode aligned exponent=8 mantissa=23 rare", True),
        ("natural_encode aligned exponent=8 mantissa=7 rare", False),
    ],
)
def test_figures_of_the_prototypes_bound_their_own_variants(kernel: str, is_known: bool) -> None:
    assert applies(kernel) == is_known


def test_a_thread_has_an_unlike_value_at_each_of_its_places() -> None:
    """However the compiler lays the values of a block out; all kinds of rows do so."""
    rows = np.array([spoiling.lonely_place(row) for row in range(16)])
    for neighbours in (1, 4, 8):
        apart = 256 * neighbours
        assert len(set(zip(rows % neighbours, rows // apart, strict=True))) == 16


@pytest.mark.parametrize("spec", surviving.MUTATED_SPECS)
def test_nine_of_ten_mutants_were_seen(spec: str) -> None:
    """Of those that are not proved to be the same program."""
    found = [
        own for name, own in results("device")["mutants"].items() if name.startswith(f"{spec}: ")
    ]
    made, caught = (sum(own[name] for own in found) for name in ("made", "seen"))
    same = sum(len(own["equivalent"]) for own in found)
    assert made > 10
    assert caught >= 0.9 * (made - same)
    assert made == caught + same + sum(len(own["survivors"]) for own in found)
