"""Checkpoints and messages of an earlier version: what follows them has the bits of then."""

import json
from pathlib import Path

import pytest
from launch import Launcher

pytest.importorskip("safetensors")
from golden import resumed, transcripts

SENT = json.loads(transcripts.FILE.read_text())
EXPECTED = json.loads((resumed.FOLDER / resumed.EXPECTED).read_text())


def test_every_case_has_a_checkpoint_and_every_checkpoint_a_case() -> None:
    packed = {path.name.removesuffix(".tar.xz") for path in resumed.FOLDER.glob("*.tar.xz")}
    assert packed == EXPECTED.keys() == resumed.CASES.keys()


@pytest.mark.parametrize("adapter", ["ddp", "fsdp", "localsgd"])
def test_old_checkpoints_go_on_bit_for_bit(
    launcher: Launcher, tmp_path: Path, adapter: str
) -> None:
    names = [name for name, case in resumed.CASES.items() if case.adapter == adapter]
    for name in names:
        resumed.unpacked(name, tmp_path / name)
    told = launcher.results("go_on", resumed.RANKS, names=names, folder=str(tmp_path))
    assert names
    for name in names:
        assert [result[name] for result in told] == EXPECTED[name], name


def test_every_run_has_a_transcript() -> None:
    assert SENT.keys() == resumed.WHOLE.keys()


@pytest.mark.parametrize("adapter", ["ddp", "fsdp", "localsgd"])
def test_ranks_send_the_bytes_that_they_sent(launcher: Launcher, adapter: str) -> None:
    names = [name for name, case in resumed.WHOLE.items() if case.adapter == adapter]
    told = launcher.results("record", resumed.RANKS, names=names)
    assert names
    for name in names:
        assert [result[name] for result in told] == SENT[name], name
