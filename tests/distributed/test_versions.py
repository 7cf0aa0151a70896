"""A rank of an earlier version trains with ranks of now, bit for bit.

Runs where `FEWBITS_OLD_PYTHON` names the interpreter of a checkout of that version.
"""

import os
import sys
from typing import Any

import pytest

from golden import resumed, transcripts

OLD, NOW = os.environ.get("FEWBITS_OLD_PYTHON", ""), sys.executable

pytestmark = pytest.mark.skipif(not OLD, reason="FEWBITS_OLD_PYTHON names no interpreter")


@pytest.fixture(scope="module", params=[2, 3])
def size_and_told(request: pytest.FixtureRequest) -> tuple[int, list[dict[str, Any]]]:
    """What ranks tell that are all of the earlier version."""
    size: int = request.param
    return size, transcripts.together([OLD] * size, list(resumed.WHOLE))


@pytest.mark.parametrize("old_rank", [0, -1])
def test_ranks_of_two_versions_train_as_those_of_one(
    size_and_told: tuple[int, list[dict[str, Any]]], old_rank: int
) -> None:
    size, expected = size_and_told
    interpreters = [NOW] * size
    interpreters[old_rank] = OLD
    told = transcripts.together(interpreters, list(resumed.WHOLE))
    for name, case in resumed.WHOLE.items():
        assert [each[name] for each in told] == [each[name] for each in expected], name
        ends = {each[name]["parameters"] for each in told}
        assert len(ends) == (size if case.adapter == "fsdp" else 1), name
