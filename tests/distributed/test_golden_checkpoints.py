"""Checkpoints and messages of earlier versions: what follows them has the bits of then."""

import json
from pathlib import Path

import pytest
from launch import Launcher

pytest.importorskip("safetensors")
from golden import resumed, transcripts

SENT = json.loads(transcripts.FILE.read_text())
SENT_EARLIER = [json.loads(file.read_text()) for file in (transcripts.FIRST, transcripts.SECOND)]
EXPECTED = {
    version: json.loads((folder / resumed.EXPECTED).read_text())
    for version, folder in resumed.FOLDERS.items()
}


@pytest.mark.parametrize("version", resumed.FOLDERS)
def test_every_case_has_a_checkpoint_and_every_checkpoint_a_case(version: int) -> None:
    found = resumed.FOLDERS[version].glob("*.tar.xz")
    packed = {path.name.removesuffix(".tar.xz") for path in found}
    assert packed == EXPECTED[version].keys() == set(resumed.OF_VERSION[version])


@pytest.mark.parametrize("adapter", ["ddp", "fsdp", "localsgd"])
@pytest.mark.parametrize("version", resumed.FOLDERS)
def test_old_checkpoints_go_on_bit_for_bit(
    launcher: Launcher, tmp_path: Path, adapter: str, version: int
) -> None:
    known = resumed.OF_VERSION[version]
    names = [name for name in known if resumed.CASES[name].adapter == adapter]
    for name in names:
        resumed.unpacked(name, tmp_path / name, version)
    told = launcher.results("go_on", resumed.RANKS, names=names, folder=str(tmp_path))
    assert names
    for name in names:
        assert [result[name] for result in told] == EXPECTED[version][name], name


def test_every_run_has_a_transcript() -> None:
    for sent in (SENT, *SENT_EARLIER):
        assert sent.keys() == resumed.WHOLE.keys()


@pytest.mark.parametrize("adapter", ["ddp", "fsdp", "localsgd"])
def test_ranks_send_the_bytes_that_they_sent(launcher: Launcher, adapter: str) -> None:
    """All bytes of version 3, and the payloads and results of versions 1 and 2."""
    names = [name for name, case in resumed.WHOLE.items() if case.adapter == adapter]
    told = launcher.results("record", resumed.RANKS, names=names)
    assert names
    for name in names:
        assert [result[name] for result in told] == SENT[name], name
        revised = transcripts.is_revised(resumed.WHOLE[name].operator)
        part = transcripts.results if revised else transcripts.payloads
        for sent in SENT_EARLIER:
            then = [part(rank) for rank in sent[name]]
            assert [part(result[name]) for result in told] == then, name
            assert all(len(rank) > (not revised) for rank in then), name


@pytest.mark.parametrize("adapter", ["ddp", "fsdp", "localsgd"])
def test_ranks_send_the_boxes_that_they_sent(launcher: Launcher, adapter: str) -> None:
    """All boxes of version 4; its runs end with what those of version 3 do."""
    boxes = json.loads(transcripts.BOXES.read_text())
    assert boxes.keys() == set(transcripts.BOXED)
    names = [name for name in transcripts.BOXED if resumed.WHOLE[name].adapter == adapter]
    told = launcher.results("record_boxes", resumed.RANKS, names=names)
    for name in names:
        assert [result[name] for result in told] == boxes[name], name
        assert [each["parameters"] for each in boxes[name]] == [
            each["parameters"] for each in SENT[name]
        ], name


@pytest.mark.soak
@pytest.mark.parametrize("name", ["ddp-natural", "ddp-diana", "fsdp-natural", "local-sgd"])
def test_a_device_sends_the_boxes_that_ranks_sent(launcher: Launcher, name: str) -> None:
    boxes = json.loads(transcripts.BOXES.read_text())[name]
    told = launcher.results(
        "record_boxes", resumed.RANKS, names=[name], device="interpreted", deadline=200.0
    )
    assert [result[name] for result in told] == boxes
