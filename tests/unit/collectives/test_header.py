"""The header before every payload."""

from dataclasses import replace

import pytest

from fewbits.backend import cpu
from fewbits.collectives.header import SIZE, Phase, RankHeader, Status, exchange
from fewbits.errors import DisagreementError, EncodeError, PeerError
from unit.collectives.local import together

FULL = RankHeader(
    Phase.SECOND_HOP, 2**63, 7, 2**64 - 1, Status.NOT_FINITE, 12345, 2**32 - 1, 3, 4, 5, 6, "größer"
)


def test_round_trip() -> None:
    data = FULL.encode()
    assert data.size == SIZE == 256
    assert RankHeader.decode(data, 0) == FULL


def test_a_text_that_is_too_long_is_cut() -> None:
    long = replace(FULL, text="ü" * 500)
    text = RankHeader.decode(long.encode(), 0).text
    assert long.text.startswith(text.rstrip("�"))
    assert 80 < len(text) < 100


@pytest.mark.parametrize(
    ("at", "value", "told"),
    [
        (0, 0, "does not speak this version"),
        (4, 99, "does not speak this version"),
        (6, 9, "makes no sense"),
        (8, 9, "makes no sense"),
    ],
)
def test_what_is_no_header_names_its_sender(at: int, value: int, told: str) -> None:
    data = FULL.encode()
    data.array()[at] = value
    cpu.seal(data)
    with pytest.raises(DisagreementError, match=f"rank 3 .*{told}"):
        RankHeader.decode(data, 3)


def test_every_flipped_bit_of_a_header_is_noticed() -> None:
    data = FULL.encode()
    for bit in range(8 * SIZE):
        data.array()[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DisagreementError, match="rank 3"):
            RankHeader.decode(data, 3)
        data.array()[bit // 8] ^= 1 << bit % 8
    assert RankHeader.decode(data, 3) == FULL


FINE = RankHeader(Phase.FIRST_HOP, 4, 1, 77, text="here")


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"status": Status.FAILED, "text": "KeyError: x"}, PeerError, "rank 1 failed at step 4"),
        ({"status": Status.NOT_FINITE, "text": "NaN"}, EncodeError, "rank 1 at step 4: NaN"),
        ({"plan": 78, "text": "there"}, DisagreementError, "here|there"),
        ({"phase": Phase.COMMIT}, DisagreementError, "phase"),
        ({"step": 5}, DisagreementError, "step"),
        ({"sequence": 2}, DisagreementError, "sequence"),
        ({"parameter_digest": 9}, DisagreementError, r"ranks \[1\] have other parameters"),
    ],
)
@pytest.mark.parametrize("world", [3, 5])
def test_one_odd_rank_is_an_error_on_all(
    world: int, change: dict, error: type[Exception], told: str
) -> None:
    base = replace(FINE, parameter_digest=8)
    odd = replace(base, **change)
    ranks = together(
        world, lambda rank: exchange(rank.comm, [odd if rank.comm.rank == 1 else base] * world)
    )
    for rank in ranks:
        assert type(rank.error) is error
        assert "rank 1" in str(rank.error) or "ranks [1]" in str(rank.error) or rank.comm.rank == 1
        with pytest.raises(error, match=told):
            raise rank.error


def test_a_rank_that_claims_nothing_of_its_parameters_is_believed() -> None:
    own = [replace(FINE, parameter_digest=digest) for digest in (0, 5, 5)]
    ranks = together(3, lambda rank: exchange(rank.comm, [own[rank.comm.rank]] * 3))
    for rank in ranks:
        assert rank.error is None
        assert rank.result == own


def test_every_receiver_gets_its_own_header() -> None:
    def work(rank) -> list[int]:
        own = [replace(FINE, length=10 * rank.comm.rank + to) for to in range(3)]
        return [answer.length for answer in exchange(rank.comm, own)]

    assert [rank.result for rank in together(3, work)] == [[0, 10, 20], [1, 11, 21], [2, 12, 22]]
