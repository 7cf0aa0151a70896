"""Islands that come, go and are lost: what they agree on through a store, without exchanging."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fewbits import PeerError, SpecError

dist = pytest.importorskip("torch.distributed")
membership = pytest.importorskip("fewbits.transport.membership")

TIMEOUT = 2.0


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """A thread for each island."""
    with ThreadPoolExecutor(8) as threads:
        yield threads


def arrived(pool: ThreadPoolExecutor, count: int) -> tuple[Any, list[Any], list[Any]]:
    """A store, islands that have begun together, and their first turn."""
    store = dist.HashStore()
    islands = [membership.Membership(store, TIMEOUT, count) for _ in range(count)]
    turns = list(pool.map(lambda each: each.arrive(), islands))
    return store, islands, turns


def voted(pool: ThreadPoolExecutor, turn: Any, votes: dict[Any, bool], **how: Any) -> Any:
    """The next turn, by the votes of some islands, which all see the same one."""
    how = {"admits": True} | how
    found = list(pool.map(lambda own: own[0].vote(turn, well=own[1], **how), votes.items()))
    assert len(set(found)) == 1
    return found[0]


def leave(islands: list[Any]) -> None:
    for each in islands:
        each.leave()


def test_islands_begin_together_and_go_on_while_all_is_well(pool: ThreadPoolExecutor) -> None:
    _, islands, turns = arrived(pool, 3)
    assert len(set(turns)) == 1
    assert (
        set(turns[0].members) == set(turns[0].new) == {own.number for own in islands} == {1, 2, 3}
    )
    turn = turns[0]
    for _ in range(3):
        after = voted(pool, turn, dict.fromkeys(islands, True))
        assert (after.number, after.members) == (turn.number + 1, turn.members)
        assert after.is_done
        assert not after.new
        turn = after
    leave(islands)


@pytest.mark.parametrize("tells", [True, False])
def test_a_lost_island_is_waited_for_once_and_left_out(
    pool: ThreadPoolExecutor, tells: bool
) -> None:
    """One that ends in order says so; one that is killed has no more beats."""
    _, islands, (turn, *_) = arrived(pool, 3)
    lost, *rest = islands
    if tells:
        lost.leave()
    else:
        lost._pulse._ends.set()
    began = time.monotonic()
    after = voted(pool, turn, dict.fromkeys(rest, True))
    assert time.monotonic() - began < 2 * TIMEOUT
    assert not after.is_done  # it may have got what the others have not
    assert set(after.members) == {own.number for own in rest}
    assert voted(pool, after, dict.fromkeys(rest, True)).is_done
    leave(islands)


def test_what_one_island_has_not_got_all_repeat(pool: ThreadPoolExecutor) -> None:
    _, islands, (turn, *_) = arrived(pool, 2)
    one, other = islands
    after = voted(pool, turn, {one: True, other: False})
    assert (after.members, after.is_done) == (turn.members, False)
    leave(islands)


def test_a_new_island_is_let_in_after_a_round_and_only_then(pool: ThreadPoolExecutor) -> None:
    store, islands, (turn, *_) = arrived(pool, 2)
    new = membership.Membership(store, TIMEOUT, 2)
    coming = pool.submit(new.arrive)
    while not all(own._pulse.has_moved(3) for own in islands):
        time.sleep(0.01)
    turn = voted(pool, turn, dict.fromkeys(islands, True), admits=False)
    assert turn.new == ()
    assert not coming.done()
    turn = voted(pool, turn, {islands[0]: True, islands[1]: False})
    assert turn.new == ()  # a round is repeated by those who know it
    turn = voted(pool, turn, dict.fromkeys(islands, True))
    assert turn.new == (3,)
    assert turn.members == (1, 2, 3)
    assert coming.result(TIMEOUT) == turn
    assert voted(pool, turn, dict.fromkeys([*islands, new], True)).is_done
    leave([*islands, new])


def test_islands_that_come_when_all_others_are_gone_begin_anew(pool: ThreadPoolExecutor) -> None:
    store, islands, (turn, *_) = arrived(pool, 2)
    voted(pool, turn, dict.fromkeys(islands, True))
    leave(islands)
    after = [membership.Membership(store, TIMEOUT, 2) for _ in range(2)]
    turns = list(pool.map(lambda each: each.arrive(), after))
    assert turns[0] == turns[1]
    assert set(turns[0].members) == set(turns[0].new) == {3, 4}
    assert turns[0].number > turn.number
    leave(after)


def test_an_island_that_the_others_have_given_up_sees_it(pool: ThreadPoolExecutor) -> None:
    _, islands, (turn, *_) = arrived(pool, 3)
    late, *rest = islands
    late._pulse._ends.set()
    after = voted(pool, turn, dict.fromkeys(rest, True))
    assert late.vote(turn, well=True, admits=True) == after
    assert late.number not in after.members
    leave(islands)


def test_a_store_that_does_not_answer_is_a_lost_peer() -> None:
    board = membership.StoreBoard(dist.HashStore())

    def broken(*_: object) -> None:
        raise RuntimeError("Connection reset by peer\nand more")

    board._store = type("Broken", (), {"check": broken, "set": broken})()
    with pytest.raises(PeerError, match=r"the store of the members .*: Connection reset by peer$"):
        board.look("x")


def test_islands_need_a_store() -> None:
    from fewbits import localsgd

    with pytest.raises(SpecError, match=r"torch\.distributed\.Store"):
        localsgd.Islands("host:29500")
    with pytest.raises(SpecError, match="at_least"):
        localsgd.Islands(dist.HashStore(), at_least=0)


def test_one_that_died_before_it_was_let_in_never_is(pool: ThreadPoolExecutor) -> None:
    """Its last beat is still there, but does not move."""
    store, islands, (turn, *_) = arrived(pool, 2)
    dead = membership.Membership(store, TIMEOUT, 2)
    dead.number = dead._board.count("arrivals", 1)
    dead._board.put(f"beat/{dead.number}", "7")
    while not all(own._pulse._watched.get(3) for own in islands):
        time.sleep(0.01)
    time.sleep(3 * islands[0]._pulse.patience / 8)
    assert [own.newcomers() for own in islands] == [[], []]
    turn = voted(pool, turn, dict.fromkeys(islands, True))
    assert turn.is_done
    assert turn.new == ()
    leave(islands)


def test_members_hear_of_those_who_wait_and_late_ones_that_all_is_over(
    pool: ThreadPoolExecutor,
) -> None:
    store, islands, (turn, *_) = arrived(pool, 2)
    new = membership.Membership(store, TIMEOUT, 2)
    coming = pool.submit(new.arrive)
    while not all(own.newcomers() == [3] for own in islands):
        time.sleep(0.01)
    turn = voted(pool, turn, dict.fromkeys(islands, True))
    assert turn.new == (3,)
    coming.result(TIMEOUT)
    while any(own.newcomers() for own in islands):
        time.sleep(0.01)
    islands[0].say("end", turn)
    assert islands[1].have_said("end", turn, [1])
    assert not islands[1].have_said("end", turn, [1, 2])
    islands[0].finish()
    with pytest.raises(PeerError, match="what met in this store has ended"):
        membership.Membership(store, TIMEOUT, 1).arrive()
    leave([*islands, new])
