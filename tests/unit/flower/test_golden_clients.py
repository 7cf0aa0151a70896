"""Clients go on from states of an earlier version, and every byte on the way is what it was."""

import json

import pytest

from golden import federated

EXPECTED = json.loads((federated.FOLDER / federated.EXPECTED).read_text())


def test_every_case_has_a_state_and_every_state_a_case() -> None:
    kept = {path.name for path in federated.FOLDER.iterdir()} - {federated.EXPECTED}
    assert kept == {f"{case}.{end}" for case in federated.CASES for end in federated.ENDS}
    assert EXPECTED.keys() == federated.CASES.keys()


@pytest.mark.parametrize("case", federated.CASES)
def test_a_client_goes_on_from_an_old_state(case: str) -> None:
    assert federated.resumed(case) == EXPECTED[case]["resumed"]


@pytest.mark.parametrize("case", federated.CASES)
def test_a_federation_sends_the_bytes_that_it_sent(case: str) -> None:
    assert federated.transcript(case) == EXPECTED[case]["transcript"]
