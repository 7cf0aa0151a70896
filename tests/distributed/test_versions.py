"""A rank of an earlier version of the headers meets ranks of now.

Runs where `FEWBITS_OLD_PYTHON` names the interpreter of a checkout of that version.
"""

import os
import sys

import pytest

from golden import transcripts

OLD, NOW = os.environ.get("FEWBITS_OLD_PYTHON", ""), sys.executable

pytestmark = pytest.mark.skipif(not OLD, reason="FEWBITS_OLD_PYTHON names no interpreter")


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("old_rank", [0, -1])
@pytest.mark.parametrize("name", ["ddp-natural", "fsdp-ef14", "local-sgd"])
def test_every_rank_raises_and_none_hangs_or_aborts(size: int, old_rank: int, name: str) -> None:
    interpreters = [NOW] * size
    interpreters[old_rank] = OLD
    with pytest.raises(RuntimeError) as caught:
        transcripts.together(interpreters, [name])
    for status, said in caught.value.args[1]:
        assert status == 1
        assert b"DisagreementError" in said
        assert b"does not speak this version of the protocol" in said
