"""Sessions of ranks in nodes, as threads: what is agreed on, saved, refused and counted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbits import DisagreementError, PeerError, SpecError
from fewbits.collectives.comm import LocalComm
from fewbits.session import (
    AdapterParts,
    ArrayValues,
    Job,
    ModelParameters,
    Options,
    Report,
    Session,
)
from fewbits.session.defaults import routes
from unit.session.test_session import PARAMETERS, caught, everyone, step


def sessions(
    uplink: str = "tiny", *, count: int = 2, width: int = 2, across: Any = None, **options: Any
) -> list[Session]:
    """Ranks of a node follow each other, unless `across` says otherwise."""
    found = []
    for comm in LocalComm.group(count * width, 10.0):
        own = range(comm.rank % width, count * width, width)
        given = own if across is None else across(comm.rank)
        chosen = Options(policy=lambda name, shape: None, across=given, **options)
        routing = routes(uplink, None, chosen, ModelParameters(PARAMETERS))
        found.append(Session(comm, routing, chosen, AdapterParts()))
    return found


def flat(ranks: int) -> list[Session]:
    return sessions(count=ranks, width=1)


def test_memories_are_saved_by_the_rank_that_sends_a_unit(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    old, new = sessions(), sessions()
    for number in range(3):
        everyone(old, lambda own: step(own, number))  # noqa: B023
    everyone(old, lambda own: own.checkpoint.save(tmp_path))
    states = [own.checkpoint.state_dict() for own in old]
    units = [{key for key in state if key.startswith("worker/")} for state in states]
    assert units[0] == units[2]
    assert units[1] == units[3]
    assert not units[0] & units[1]
    everyone(new, lambda own: own.checkpoint.load(tmp_path))
    for number in range(3, 5):
        means = [everyone(group, lambda own: step(own, number)) for group in (old, new)]  # noqa: B023
        assert all(map(np.array_equal, *means))
    for group in (old, new):
        everyone(group, Session.close)


def test_other_nodes_refuse_a_state_and_nobody_shares_it_out(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    old = sessions()
    everyone(old, lambda own: step(own, 0))
    everyone(old, lambda own: own.checkpoint.save(tmp_path))
    everyone(old, Session.close)
    crossed = sessions(across=lambda rank: [rank // 2 * 2, rank // 2 * 2 + 1])
    for group in (flat(4), sessions(count=1, width=4), crossed):
        for error in everyone(group, lambda own: caught(lambda: own.checkpoint.load(tmp_path))):
            assert isinstance(error, DisagreementError)
            assert "another configuration" in str(error)
        everyone(group, Session.close)
    for group in (flat(2), sessions()):
        for error in everyone(
            group, lambda own: caught(lambda: own.checkpoint.load(tmp_path, reshard=True))
        ):
            assert isinstance(error, DisagreementError | SpecError)
            assert "belong to its nodes" in str(error)
        everyone(group, Session.close)


@pytest.mark.parametrize("uplink", ["natural", "top-k:fraction=0.1|natural"])
@pytest.mark.parametrize("odd", range(4))
def test_a_state_of_another_run_is_refused_on_all_ranks(uplink: str, odd: int) -> None:
    """Its memories of means are not those of the rank with the same place, so both would part."""
    one, two = (sessions(uplink, feedback="ef21") for _ in range(2))
    for number in range(2):
        everyone(one, lambda own: step(own, number))  # noqa: B023
        everyone(two, lambda own: step(own, 7 + number))  # noqa: B023
    right, other = ([own.checkpoint.state_dict() for own in group] for group in (one, two))
    mixed = [*right]
    mixed[odd] = other[odd]
    new = sessions(uplink, feedback="ef21")
    for states, word in ((mixed, "common memories"), (right, None)):
        found = everyone(
            new,
            lambda own: caught(lambda: own.checkpoint.load_state_dict(states[own.comm.rank])),  # noqa: B023
        )
        for error in found:
            assert (error is None) == (word is None)
            if word is not None:
                assert isinstance(error, DisagreementError)
                assert word in str(error)
                assert f"rank {odd}:" in str(error)
    means = [everyone(group, lambda own: step(own, 2)) for group in (one, new)]
    assert all(map(np.array_equal, *means))
    for group in (one, two, new):
        everyone(group, Session.close)


def test_a_state_lacks_nothing_before_the_first_step(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    old, new = sessions(), sessions()
    everyone(old, lambda own: own.checkpoint.save(tmp_path))
    everyone(new, lambda own: own.checkpoint.load(tmp_path))
    means = [everyone(group, lambda own: step(own, 0)) for group in (old, new)]
    assert all(map(np.array_equal, *means))
    for group in (old, new):
        everyone(group, Session.close)


def test_a_parameter_without_a_gradient_is_refused_with_feedback_on_all_ranks() -> None:
    def work(own: Session) -> Exception | None:
        values = np.ones(sum(each.size for each in PARAMETERS), np.float32)
        unused = ["second"] if own.comm.rank == 1 else []
        job = Job(0, ArrayValues(values), PARAMETERS, is_last=True, unused=unused)
        return caught(lambda: (own.submit(job), own.wait(job)))

    group = sessions("tiny")
    for rank, error in enumerate(everyone(group, work)):
        assert type(error) is (SpecError if rank == 1 else PeerError)
        assert "second has no gradient" in str(error)
    everyone(group, Session.close)
    group = sessions("natural")
    assert everyone(group, work) == [None] * 4
    everyone(group, Session.close)


def test_wrong_groups_are_the_same_error_on_all_ranks() -> None:
    told = {
        "rank 1 is not in its own": lambda rank: [0, 2] if rank < 3 else [1, 3],
        "of 4 ranks, got": lambda rank: range(5),
        "different sizes": lambda rank: [0, 1, 2] if rank < 3 else [3],
    }
    for text, across in told.items():
        group = sessions("natural", across=across)
        errors = everyone(group, lambda own: caught(own.start))
        assert all(isinstance(error, SpecError | PeerError) for error in errors)
        assert all(text in str(error) for error in errors)


def test_momentum_needs_a_second_node() -> None:
    group = sessions("natural", count=1, feedback="ef14:momentum=0.9")
    for error in everyone(group, lambda own: caught(own.start)):
        assert isinstance(error, SpecError)
        assert "give the momentum to the optimizer" in str(error)


def test_a_report_tells_bytes_inside_and_between_apart() -> None:
    for count, text in ((1, "one node: nothing is sent"), (3, "headers to 2 other nodes")):
        group = sessions("natural", count=count)
        everyone(group, lambda own: step(own, 0))
        reports = [Report(**own.figures()) for own in group]
        everyone(group, Session.close)
        assert all(text in str(report) for report in reports)
        assert all(report.nodes == count and report.inside_bytes for report in reports)
        sent = sum(report.payload_bytes for report in reports)
        assert sent == 0 if count == 1 else sent > 0
        assert sum(report.plain_bytes for report in reports) == pytest.approx(
            2 * (count - 1) * 4 * sum(each.size for each in PARAMETERS), rel=1e-3
        )


@pytest.mark.parametrize("nodes", [0, 2])
@pytest.mark.parametrize(
    ("sent", "words"),
    [(250, "4.00× less than"), (1000, "as much as"), (1250, "1.25× more than")],
)
def test_a_report_never_calls_bytes_that_grew_less(nodes: int, sent: int, words: str) -> None:
    told = str(
        Report("natural", "natural", "sharded", 4, 1, sent, 0, 1000, 0, 0, 0, 250, 250, nodes=nodes)
    )
    assert words in told
    assert ("less" in told) == (sent < 1000)


def test_a_session_that_is_opened_again_learns_its_nodes_anew() -> None:
    group = sessions("natural")
    first = everyone(group, lambda own: step(own, 0))
    everyone(group, Session.close)
    for own in group:
        own.progress.step = 0
    again = everyone(group, lambda own: step(own, 0))
    assert all(map(np.array_equal, first, again))
    everyone(group, Session.close)
