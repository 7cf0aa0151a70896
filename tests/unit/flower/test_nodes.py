"""The server's memory of its nodes is bounded, and who was forgotten trains like a new node."""

import gc
import tracemalloc

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict

from fewbits.errors import SpecError
from fewbits.flower import CompressedGrid, client_mod
from unit.flower.federation import Client, InOrder, LocalGrid, clients, data_bytes, equal, model

SIDE = 64
SHIFT = 4 * SIDE * SIDE  # bytes of one client's shift


def weights(seed: int) -> ArrayRecord:
    x = np.random.default_rng(seed).standard_normal((SIDE, SIDE), dtype=np.float32)
    return ArrayRecord({"matrix": Array(x)})


def client(node: int, feedback: str | None = "ef21") -> Client:
    return Client(node, [client_mod("natural", feedback=feedback, seed=1)])


def train(grid: CompressedGrid, local: LocalGrid, nodes: list[int], seed: int) -> list[Message]:
    content = RecordDict({"arrays": weights(seed)})
    local.down.clear()
    local.up.clear()
    return grid.send_and_receive([Message(content, node, "train") for node in nodes])


@pytest.mark.parametrize("feedback", [None, "ef14", "ef21", "diana", "ef-bv"])
def test_one_time_nodes_do_not_fill_the_servers_memory(feedback: str | None) -> None:
    cap, each = 16, 4
    local = LocalGrid([])
    grid = CompressedGrid(local, "natural", feedback=feedback, max_nodes=cap, seed=2)
    sizes: list[int] = []
    gc.freeze()  # what other tests have left need not be looked at each time
    tracemalloc.start()
    for turn in range(10 * cap // each):
        nodes = [1 + turn * each + place for place in range(each)]
        local.clients = {node: client(node, feedback) for node in nodes}
        assert not any(reply.has_error() for reply in train(grid, local, nodes, turn))
        if turn % (cap // each) == 0:
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
        assert grid.report().nodes == min(cap, (turn + 1) * each)
    tracemalloc.stop()
    shifts = feedback not in (None, "ef14")
    report = grid.report()
    assert (report.nodes, report.evicted, report.rejected) == (cap, 9 * cap, 0)
    assert report.memory_bytes == (cap * SHIFT if shifts else 0)
    assert max(sizes[2:]) - min(sizes[2:]) < 3 * SHIFT  # 112 shifts if none were forgotten
    if shifts:
        assert sizes[2] - sizes[0] > (cap - each - 3) * SHIFT  # it does measure them


@pytest.mark.parametrize("feedback", [None, "ef14", "ef21", "diana", "ef-bv"])
def test_a_node_that_was_forgotten_trains_as_a_new_one(feedback: str | None) -> None:
    """It, and in a twin federation a node that was never there before, bit for bit."""
    found = []
    for forgotten in (True, False):
        nodes = (1, 2, 3, 4, 9)
        local = LocalGrid([client(node, feedback) for node in nodes])
        grid = CompressedGrid(local, "natural", feedback=feedback, max_nodes=3, seed=2)
        for turn in range(2):
            train(grid, local, [1 if forgotten else 9, 2], turn)
        train(grid, local, [2, 3, 4], 2)  # now it is forgotten
        assert grid.report().evicted == 1
        one = local.clients[1]
        one.received.clear()  # its training is a function of this number
        if forgotten and feedback:
            assert any(name.startswith("fewbits.pending:") for name in one.context.state)
        seen = []
        for turn in (3, 4):
            (reply, _) = train(grid, local, [1, 2], turn)
            asked = dict(local.down[0].content["fewbits"])
            entries = [asked[name] for name in ("turn", "base", "memory", "version")]
            raw = local.up[0].content["arrays"]["matrix"].data
            seen.append((entries, raw, reply.content["arrays"]["matrix"].data))
            assert equal(one.received[-1], grid.reference["arrays"])
        assert seen[0][0][:3] == [3, "none", 0]  # no turn of its own comes twice: it seeds rounding
        assert (seen[1][0][2] > 0) == (feedback is not None)
        assert not grid.rejections
        found.append((seen, memories(one)))
    assert found[0] == found[1]


def memories(one: Client) -> dict[str, bytes]:
    return {
        name: record["matrix"].data
        for name, record in one.context.state.array_records.items()
        if not name.startswith("fewbits.model:")
    }


def test_a_reply_under_way_outlives_its_nodes_place() -> None:
    """Its ticket keeps the memory that it starts from."""
    local = LocalGrid([client(node) for node in range(1, 9)])
    grid = CompressedGrid(local, "natural", feedback="ef21", max_nodes=2, seed=2)
    for turn in range(2):
        train(grid, local, [1], turn)
    first = grid.push_messages([Message(RecordDict({"arrays": weights(2)}), 1, "train")])
    assert local.down[-1].content["fewbits"]["memory"] > 0
    others = [Message(RecordDict({"arrays": weights(3)}), node, "train") for node in (2, 3, 4)]
    grid.pull_messages(grid.push_messages(others))
    assert 1 not in grid._nodes._states
    (reply,) = grid.pull_messages(first)
    assert not reply.has_error()
    pending = local.clients[1].context.state["fewbits.pending:arrays"]["matrix"].numpy()
    kept = grid._nodes.seen(1).memory.shifts["arrays"]["matrix"]
    assert kept.any()
    assert kept.tobytes() == pending.tobytes()
    assert not grid.rejections


def test_a_round_of_more_nodes_than_are_remembered_is_right_and_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    results = []
    for most in (3, 100):
        local = LocalGrid(clients(7))
        grid = CompressedGrid(local, "natural", max_nodes=most, seed=2)
        caplog.clear()
        InOrder(fraction_evaluate=0.0).start(grid, model(), num_rounds=3)
        assert not grid.rejections
        assert all(equal(one.received[-1], grid.reference["arrays"])
                   for one in local.clients.values())  # fmt: skip
        assert caplog.text.count("see max_nodes") == (most == 3)
        results.append(data_bytes(local.down[-1]))
    assert results[0] > 2 * results[1]  # they get whole models


def test_the_last_to_speak_are_remembered() -> None:
    local = LocalGrid([client(node) for node in (1, 2, 3)])
    grid = CompressedGrid(local, "natural", feedback="ef21", max_nodes=2)
    for turn, node in enumerate((1, 2, 1, 3)):
        train(grid, local, [node], turn)
    assert list(grid._nodes._states) == [1, 3]


def test_messages_without_arrays_and_strangers_take_no_place() -> None:
    local = LocalGrid(clients(3))
    grid = CompressedGrid(local, "natural", max_nodes=2)
    grid.send_and_receive([Message(RecordDict(), node, "query") for node in (1, 2, 3)])
    assert grid.report().nodes == 0


@pytest.mark.parametrize("most", [0, -1, 1.5, "10", None])
def test_nonsense_is_refused(most: object) -> None:
    with pytest.raises(SpecError, match="max_nodes must be a positive whole number"):
        CompressedGrid(LocalGrid([]), "natural", max_nodes=most)


def test_bytes_are_counted_for_each_round_and_client() -> None:
    local = LocalGrid([client(node, None) for node in (1, 2, 3)])
    grid = CompressedGrid(local, "natural", max_nodes=3, seed=2)
    sent, received = [], []
    for seed, nodes in enumerate(([1, 2], [2, 3])):
        train(grid, local, nodes, seed)
        sent.append([data_bytes(message) for message in local.down])
        received.append([data_bytes(message) for message in local.up])
    report = grid.report()
    assert list(report.rounds) == [1, 2]
    for number, traffic in report.rounds.items():
        assert (traffic.messages, traffic.replies) == (2, 2)
        assert traffic.down == sum(sent[number - 1])
        assert traffic.up == sum(received[number - 1])
        assert (
            traffic.plain_up
            == traffic.plain_down
            == 2 * data_bytes(Message(RecordDict({"arrays": weights(0)}), 1, "train"))
        )
    assert report.by_node[2].down == sent[0][1] + sent[1][0]
    assert report.by_node[2].up == received[0][1] + received[1][0]
    assert set(report.by_node) == {1, 2, 3}
    for name in ("down", "up", "plain_down", "plain_up", "messages", "replies"):
        total = getattr(report.traffic, name)
        assert total == sum(getattr(one, name) for one in report.rounds.values())
        assert total == sum(getattr(one, name) for one in report.by_node.values())
    assert report.rounds[2].up < report.rounds[2].plain_up / 2
    assert report.traffic.ratio > 1.5
    assert report.as_dict()["traffic"]["up"] == report.traffic.up


def test_only_so_many_nodes_are_counted() -> None:
    local = LocalGrid([client(node, None) for node in (1, 2, 3)])
    grid = CompressedGrid(local, "natural", max_nodes=2, seed=2)
    train(grid, local, [1, 2], 0)
    train(grid, local, [3], 1)
    assert set(grid.report().by_node) == {2, 3}
    assert grid.report().traffic.messages == 3
