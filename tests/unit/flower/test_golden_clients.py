"""Clients go on from states of an earlier version, and every byte on the way is what it was."""

import json

import pytest

from golden import federated

FIRST = json.loads((federated.FOLDER / federated.EXPECTED).read_text())
EXPECTED = FIRST | json.loads((federated.FOLDER / federated.EXPECTED_2).read_text())


def test_every_case_has_a_state_and_every_state_a_case() -> None:
    expected = {federated.EXPECTED, federated.EXPECTED_2}
    kept = {path.name for path in federated.FOLDER.iterdir()} - expected
    assert kept == {f"{case}.{end}" for case in federated.CASES for end in federated.ENDS}
    assert EXPECTED.keys() == federated.CASES.keys()


@pytest.mark.parametrize("case", federated.CASES)
def test_a_client_goes_on_from_an_old_state(case: str) -> None:
    assert federated.resumed(case) == EXPECTED[case]["resumed"]


@pytest.mark.parametrize("case", federated.CASES)
def test_a_federation_sends_the_bytes_that_it_sent(case: str) -> None:
    assert federated.transcript(case) == EXPECTED[case]["transcript"]


@pytest.mark.parametrize("case", federated.REVISED)
def test_other_frames_say_what_they_said(case: str) -> None:
    for part, same, other in (("transcript", "rebuilt", "up"), ("resumed", "state", "reply")):
        first, now = FIRST[case][part], EXPECTED[case][part]
        assert first[same] == now[same]
        assert first[other] != now[other]
