"""Trees of plain values that travel between ranks."""

from collections import Counter, OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fewbits import DisagreementError, SpecError
from fewbits.collectives.comm import LocalComm
from fewbits.collectives.parcels import numbers_of_all, packed, swapped, unpacked

TREES: list[Any] = [
    None, True, -3, 0.1, float("inf"), "ä\n", [], {}, (1, [2.5, (None,)]),
    {"a": {0: [1, 2], "b": "c"}, 3: ()},
    OrderedDict(x=1), Counter({3: 2, 5: 1}),
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_a_tree_comes_back_equal_and_of_the_same_types(tree: Any) -> None:
    back = unpacked(packed(tree))
    assert back == tree
    assert type(back) is (dict if type(tree) is OrderedDict else type(tree))


def test_arrays_come_back_bit_for_bit() -> None:
    arrays = [
        np.float32([1, np.nan, -0.0]), np.arange(6, dtype=np.int64).reshape(2, 3), np.uint8(7),
        np.empty((0, 3), np.float64), np.ones((3, 2), np.float16).T, np.array(True),
    ]  # fmt: skip
    tree = {str(i): np.asarray(each) for i, each in enumerate(arrays)}
    back = unpacked(packed([tree, 5]))
    assert back[1] == 5
    for key, own in tree.items():
        assert (back[0][key].dtype, back[0][key].shape) == (own.dtype, own.shape)
        assert back[0][key].tobytes() == own.tobytes()
        assert back[0][key].flags.writeable


def test_what_does_not_travel_is_named() -> None:
    with pytest.raises(SpecError, match=r"the state\['a'\]\[1\] is function: only tensors"):
        packed({"a": [1, lambda: 0]})
    with pytest.raises(SpecError, match=r"has the key \(1, 2\)"):
        packed({(1, 2): 3})
    with pytest.raises(SpecError, match="is ndarray"):
        packed([np.array(["text"])])


def test_damaged_trees_are_refused() -> None:
    good = packed({"a": np.arange(4), "b": [1, 2.5]})
    for end in range(len(good)):
        with pytest.raises(DisagreementError):
            unpacked(good[:end])
    for wrong in (
        b'[1]', b'{"set": []}', b'{"array": ["|O", 1]}', b'{"array": ["<f4", -1]}',
        b'{"array": ["<f4", 1099511627776]}', b'{"a": 1, "b": 2}', b'{"dict": [[[], 1]]}',
    ):  # fmt: skip
        with pytest.raises(DisagreementError):
            unpacked(len(wrong).to_bytes(8, "little") + wrong)
    with pytest.raises(DisagreementError):
        unpacked(good + b"\0")


def test_every_rank_gets_what_the_others_sent_to_it() -> None:
    comms = LocalComm.group(3, timeout=5.0)

    def run(comm: LocalComm) -> tuple[list[bytes], list[list[int]]]:
        sent = [f"{comm.rank} to {r}".encode() * r for r in range(3)]
        return swapped(comm, sent), numbers_of_all(comm, [comm.rank, -7])

    with ThreadPoolExecutor(3) as pool:
        for rank, (received, numbers) in enumerate(pool.map(run, comms)):
            assert received == [f"{r} to {rank}".encode() * rank for r in range(3)]
            assert numbers == [[0, -7], [1, -7], [2, -7]]
