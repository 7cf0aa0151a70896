"""Memories change when a step ends well, and are found again however batches are arranged."""

import numpy as np
import pytest

from fewbits import DisagreementError
from fewbits.feedback.store import MASTER, WORKER, MemoryPair, Place, Store

FLOAT = np.dtype(np.float32)
A, B = Place("a/0", 0, 3), Place("b/0", 3, 2)


def bound(store: Store, *places: Place, side: str = WORKER, rows: int = 1) -> MemoryPair:
    return store.bind(side, places, rows, max(p.start + p.count for p in places), FLOAT)


def write(pair: MemoryPair, value: float) -> None:
    pair.then[...] = value
    pair.written = True


def contents(store: Store) -> dict[str, list[list[float]]]:
    return {key: array.tolist() for key, array in store.arrays().items()}


def test_what_a_step_writes_holds_after_it_and_not_before() -> None:
    store = Store()
    pair = bound(store, A, B)
    write(pair, 1)
    assert contents(store) == {"worker/a/0": [[0, 0, 0]], "worker/b/0": [[0, 0]]}
    store.end_step(well=True)
    assert contents(store) == {"worker/a/0": [[1, 1, 1]], "worker/b/0": [[1, 1]]}
    assert pair.now.tolist() == [[1, 1, 1, 1, 1]]
    write(pair, 2)
    store.end_step(well=True)
    assert contents(store)["worker/b/0"] == [[2, 2]]


def test_a_step_that_ends_badly_leaves_no_trace() -> None:
    store = Store()
    pair = bound(store, A, B)
    write(pair, 1)
    store.end_step(well=True)
    before = contents(store)
    write(pair, np.nan)
    store.end_step(well=False)
    assert contents(store) == before
    store.end_step(well=True)  # nothing was written since, so nothing changes
    assert contents(store) == before


def test_a_batch_of_several_units_is_swapped_once() -> None:
    store = Store()
    write(pair := bound(store, A, B), 1)
    other = bound(store, Place("c/0", 0, 1))
    store.end_step(well=True)
    assert pair.now.all()
    assert not other.now.any()  # not written, not swapped


def test_another_arrangement_of_batches_keeps_the_contents() -> None:
    store = Store()
    pair = bound(store, A, B, rows=2)
    pair.then[...] = np.arange(10).reshape(2, 5)
    pair.written = True
    store.end_step(well=True)
    before = contents(store)
    first = bound(store, Place("b/0", 1, 2), rows=2)
    second = bound(store, Place("c/0", 0, 4), Place("a/0", 4, 3), rows=2)
    assert first.now.tolist() == [[0, 3, 4], [0, 8, 9]]
    assert second.now[:, 4:].tolist() == [[0, 1, 2], [5, 6, 7]]
    assert contents(store) == before | {"worker/c/0": [[0] * 4, [0] * 4]}
    write(pair, 99)  # the old batch is nobody's any more
    store.end_step(well=True)
    assert contents(store)["worker/a/0"] == before["worker/a/0"]


def test_sides_do_not_meet() -> None:
    store = Store()
    write(bound(store, A), 1)
    write(bound(store, A, side=MASTER), 2)
    store.end_step(well=True)
    assert contents(store) == {"worker/a/0": [[1, 1, 1]], "master/a/0": [[2, 2, 2]]}


@pytest.mark.parametrize("first", ["load", "bind"])
def test_loading_works_before_and_after_batches_are_bound(first: str) -> None:
    saved = {"worker/a/0": np.float32([[1, 2, 3]]), "worker/b/0": np.float32([[4, 5]])}
    store = Store()
    if first == "load":
        store.load(saved)
        pair = bound(store, A, B)
    else:
        pair = bound(store, A, B)
        write(pair, 7)
        store.load(saved)
    assert pair.now.tolist() == [[1, 2, 3, 4, 5]]
    store.end_step(well=True)  # what was written before the load does not come back
    assert pair.now.tolist() == [[1, 2, 3, 4, 5]]
    assert contents(store) == {key: array.tolist() for key, array in saved.items()}
    write(pair, 8)
    store.end_step(well=True)
    assert saved["worker/a/0"].tolist() == [[1, 2, 3]]


def test_loading_replaces_everything() -> None:
    store = Store()
    write(bound(store, A, B), 1)
    store.end_step(well=True)
    store.load({"worker/a/0": np.float32([[5, 5, 5]]), "worker/c/0": np.float32([[6]])})
    assert contents(store) == {
        "worker/a/0": [[5, 5, 5]],
        "worker/b/0": [[0, 0]],
        "worker/c/0": [[6]],  # for a batch that is still to come
    }
    assert bound(store, Place("c/0", 2, 1)).now.tolist() == [[0, 0, 6]]


def test_what_was_loaded_is_dropped_with_the_first_step_that_asks_for_nothing_more() -> None:
    store = Store()
    store.load({"worker/a/0": np.float32([[5, 5, 5]]), "mean/a/0": np.float32([[6, 6, 6]])})
    bound(store, A)
    store.end_step(well=True)
    assert contents(store) == {"worker/a/0": [[5, 5, 5]], "mean/a/0": [[6, 6, 6]]}
    store.end_step(well=True)
    assert contents(store) == {"worker/a/0": [[5, 5, 5]]}


def test_a_rank_alone_keeps_what_it_loaded_for_others_to_come() -> None:
    store = Store()
    store.load({"worker/a/0": np.float32([[5, 5, 5]])})
    store.end_step(well=True)
    assert contents(store) == {"worker/a/0": [[5, 5, 5]]}


@pytest.mark.parametrize("shape", [(1, 4), (2, 3), (3,)])
@pytest.mark.parametrize("first", ["load", "bind"])
def test_a_memory_of_another_shape_is_refused(first: str, shape: tuple[int, ...]) -> None:
    wrong = {"worker/b/0": np.ones((1, 2), np.float32), "worker/a/0": np.ones(shape, np.float32)}
    store = Store()
    if first == "load":
        store.load(wrong)
        with pytest.raises(DisagreementError, match="the memory worker/a/0 has"):
            bound(store, A, B)
        return
    write(bound(store, A, B), 3)
    store.end_step(well=True)
    before = contents(store)
    with pytest.raises(DisagreementError, match="the memory worker/a/0 has"):
        store.load(wrong)
    assert contents(store) == before


def test_what_is_given_out_is_a_copy() -> None:
    store = Store()
    pair = bound(store, A)
    store.arrays()["worker/a/0"][...] = 1
    assert not pair.now.any()


def test_bytes_count_both_copies_of_what_units_use() -> None:
    store = Store()
    store.bind(WORKER, [B], 2, 100, FLOAT)
    store.bind(MASTER, [B], 1, 100, np.dtype(np.float64))
    assert store.nbytes == 2 * 2 * 2 * 4 + 2 * 1 * 2 * 8


def test_scaling_reaches_what_is_bound_and_what_is_still_to_be_bound() -> None:
    store = Store()
    store.load({"worker/a/0": np.ones((1, 3), np.float32), "worker/b/0": np.ones((1, 2))})
    store.bind("worker", [Place("a/0", 0, 3)], 1, 3, np.dtype(np.float32))
    store.scale(0.5)
    assert {key: array.tolist() for key, array in store.arrays().items()} == {
        "worker/a/0": [[0.5, 0.5, 0.5]],
        "worker/b/0": [[0.5, 0.5]],
    }
