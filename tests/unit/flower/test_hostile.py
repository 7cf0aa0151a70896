"""Hostile clients and hostile servers: the round goes on, the offender is named."""

import pickle
import sys
import tracemalloc
from collections.abc import Callable
from copy import copy

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

import fewbits
from fewbits.errors import DecodeError
from fewbits.flower import CompressedGrid
from fewbits.flower.arrays import STYPE, rebuilt, values
from fewbits.flower.client import mod
from fewbits.flower.server import replies
from unit.flower.attacks import ATTACKS, CODED, EARLIER, LAST, changed, metrics, overflow
from unit.flower.federation import (
    InOrder,
    LocalGrid,
    arrays,
    clients,
    data_bytes,
    equal,
    inflated,
    model,
)

HOSTILE = 16


def weights(strategy: InOrder, grid: CompressedGrid, before: ArrayRecord) -> ArrayRecord:
    result = strategy.start(grid, before, num_rounds=1)
    return result.arrays


@pytest.mark.parametrize(
    ("operator", "feedback", "nodes"),
    [
        ("natural", None, 20),
        ("natural", "ef21", 20),
        pytest.param("natural", None, 64, marks=pytest.mark.soak),
        pytest.param("natural", "ef21", 64, marks=pytest.mark.soak),
        pytest.param(CODED, "ef14", 64, marks=pytest.mark.soak),
        pytest.param("rand-k:fraction=0.25|natural", "diana", 64, marks=pytest.mark.soak),
    ],
)
def test_the_aggregate_is_that_of_the_honest_and_offenders_are_named(
    operator: str, feedback: str | None, nodes: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the clients 16 are hostile, every attack in turn, against a run without the 16."""
    spread = [2 + number * (nodes - 2) // HOSTILE for number in range(HOSTILE)]
    runs = []
    for _ in range(2):
        local = LocalGrid(clients(nodes, operator, feedback=feedback))
        grid = CompressedGrid(local, operator, feedback=feedback, seed=2)
        runs.append((local, grid, InOrder(fraction_evaluate=0.0)))
    (attacked, grid, strategy), (alone, other, twin) = runs
    assert len(set(spread)) == HOSTILE
    assert len(ATTACKS) >= 100
    one, two = weights(strategy, grid, model()), weights(twin, other, model())
    EARLIER.clear()
    EARLIER.update({reply.metadata.src_node_id: reply for reply in attacked.up})
    LAST.update(EARLIER)
    waiting = list(ATTACKS.items())
    while waiting:
        batch, waiting = waiting[:HOSTILE], waiting[HOSTILE:]
        hostile = dict(zip(spread, batch, strict=False))
        attacked.tamper = {node: attack for node, (_, attack) in hostile.items()}
        alone.lost = set(hostile)
        seen = len(grid.rejections)
        caplog.clear()
        attacked.up.clear()
        one, two = weights(strategy, grid, one), weights(twin, other, two)
        LAST.update({reply.metadata.src_node_id: reply for reply in attacked.up
                     if reply.metadata.src_node_id not in hostile})  # fmt: skip
        new = grid.rejections[seen:]
        named = {rejection.node for rejection in new}
        missed = {hostile[node][0] for node in hostile.keys() - named}
        assert not missed
        assert named == set(hostile), "someone honest was left out"
        assert len(new) == len(hostile)
        assert all(f"node {node} is left out" in caplog.text for node in hostile)
        assert equal(one, two)
        assert equal(grid.reference["arrays"], other.reference["arrays"])
    assert not other.rejections


def test_every_reason_says_what_was_wrong() -> None:
    """And is one short line, whatever the attacker has put into it."""
    local = LocalGrid(clients(1))
    grid = CompressedGrid(local, "natural")
    name = "\x1b[31m\n" * 100
    local.tamper = {
        1: lambda sent, reply: changed(
            reply, lambda content: content["metrics"].__setitem__(name, float("nan"))
        )
    }
    (reply,) = grid.send_and_receive([Message(RecordDict({"arrays": model()}), 1, "train")])
    (rejection,) = grid.rejections
    assert reply.error.reason == f"fewbits: {rejection.reason}"
    assert rejection.reason.isprintable()
    assert len(rejection.reason) < 200


def test_a_stranger_is_named_and_dropped() -> None:
    local = LocalGrid(clients(2))
    grid = CompressedGrid(local, "natural")
    messages = [Message(RecordDict({"arrays": model()}), node, "train") for node in (1, 2)]
    foreign = copy(messages[0])

    def with_foreign(sent: Message, reply: Message) -> list[Message]:
        forged = Message(RecordDict(reply.content), reply_to=foreign)
        forged.metadata.__dict__["_src_node_id"] = 99
        return [reply, forged]

    local.tamper = {1: with_foreign}
    replies = grid.send_and_receive(messages)
    assert [reply.metadata.src_node_id for reply in replies] == [1, 2]
    assert all(reply.has_content() for reply in replies)
    assert [(one.node, one.reason) for one in grid.rejections] == [(99, "it was not asked")]


def test_the_weights_limit_is_the_users() -> None:
    local = LocalGrid(clients(3))  # they say 11, 12 and 13
    grid = CompressedGrid(local, "natural", max_weight=12)
    messages = [Message(RecordDict({"arrays": model()}), node, "train") for node in (1, 2, 3)]
    replies = grid.send_and_receive(messages)
    assert [reply.has_error() for reply in replies] == [False, False, True]
    assert "at most 12" in replies[2].error.reason


@pytest.mark.parametrize("weight", [0, 0.0, -0.0])
def test_weights_that_are_all_zero_do_not_end_the_run(weight: float) -> None:
    """Flower's strategies divide by their sum."""
    local = LocalGrid(clients(2), {node: metrics(num_examples=weight) for node in (1, 2)})
    grid = CompressedGrid(local, "natural", seed=2)
    strategy, first = InOrder(fraction_evaluate=0.0), model()
    del first["mask"]  # it has infinities, whose product with 0 is NaN
    result = strategy.start(grid, first, num_rounds=1)
    assert [(one.node, "weight is 0" in one.reason) for one in grid.rejections] == [
        (1, True), (2, True),
    ]  # fmt: skip
    del local.tamper[1]
    result = strategy.start(grid, first, num_rounds=1)
    known, change = (
        local.clients[1].received[-1]["matrix"],
        local.up[-2].content["arrays"]["matrix"],
    )
    alone = rebuilt(values(known), fewbits.decompress(change.data))
    assert np.array_equal(result.arrays["matrix"].numpy(), alone.numpy())
    assert len(grid.rejections) == 2  # beside others, it is a weight like any


def test_replies_of_different_making_are_the_users_choice() -> None:
    def odd(sent: Message, reply: Message) -> list[Message]:
        return changed(reply, lambda content: content["metrics"].__setitem__("mine", 1.0))

    for uniform in (True, False):
        local = LocalGrid(clients(3), {2: odd})
        grid = CompressedGrid(local, "natural", uniform=uniform)
        messages = [Message(RecordDict({"arrays": model()}), node, "train") for node in (1, 2, 3)]
        assert [reply.has_error() for reply in grid.send_and_receive(messages)] == [
            False, uniform, False,
        ]  # fmt: skip


def test_the_time_limit_covers_the_second_attempt() -> None:
    limits: list[float | None] = []

    class Timed(LocalGrid):
        def send_and_receive(self, messages, *, timeout=None):
            limits.append(timeout)
            return super().send_and_receive(messages, timeout=timeout)

    local = Timed(clients(2))
    grid = CompressedGrid(local, "natural")
    for turn in range(2):
        local.clients[1].restart()
        grid.send_and_receive(
            [Message(RecordDict({"arrays": model(turn)}), node, "train") for node in (1, 2)],
            timeout=30.0,
        )
    assert limits[:2] == [30.0, 30.0]
    (again,) = limits[2:]
    assert 0 < again < 30.0


def test_hostile_replies_take_no_memory() -> None:
    """The peak of a round is at most twice what the honest replies declare, and a little."""
    local = LocalGrid(clients(16))
    grid = CompressedGrid(local, "natural")
    shared = RecordDict({"arrays": model()})
    messages = [Message(shared, node, "train") for node in range(1, 17)]
    tickets = grid._outbox.tickets(messages)
    replies = []
    for ticket, attack in zip(tickets, ATTACKS.values(), strict=False):
        ticket.message.metadata.__dict__["_message_id"] = "m"
        own = local.clients[ticket.node]
        honest = own.app(inflated(ticket.message), own.context)
        EARLIER[ticket.node] = honest
        replies += attack(ticket.message, honest) if ticket.node % 4 == 0 else [honest]
    declared = 12 * sum(array.nbytes for array in arrays(model()).values())
    tracemalloc.start()
    grid._inbox.read(replies, tickets)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * declared + 2**20


# The other direction.


def tampered(change: Callable[[RecordDict], None]) -> Callable[[Message], Message]:
    return lambda message: changed(message, change)[0]


def on_matrix(edit: Callable[[bytes], bytes], **fields: object) -> Callable[[Message], Message]:
    def change(content: RecordDict) -> None:
        old = content["arrays"]["matrix"]
        known = {"dtype": old.dtype, "shape": old.shape, "stype": old.stype}
        content["arrays"]["matrix"] = Array(**{**known, **fields}, data=edit(old.data))

    return tampered(change)


def frame_of(x: np.ndarray, operator: str = "natural") -> bytes:
    return bytes(fewbits.compress(x, operator, seed=1, nonfinite="carry"))


D = 96 * 64
FROM_SERVER = {
    **{f"cut at {part}/16": on_matrix(lambda data, part=part: data[: len(data) * part // 16])
       for part in range(16)},
    "flipped": on_matrix(lambda data: data[:40] + bytes([data[40] ^ 8]) + data[41:]),
    "trailing": on_matrix(lambda data: data + b"x"),
    "pickle": on_matrix(lambda data: pickle.dumps({"a": 1})),
    "too many": on_matrix(lambda data: frame_of(np.ones(10 * D, np.float32))),
    "a shape": on_matrix(lambda data: frame_of(np.ones((96, 64), np.float32))),
    "NaN": on_matrix(lambda data: frame_of(np.full(D, np.nan, np.float32))),
    "overflow": tampered(overflow),
    "no model follows": on_matrix(
        lambda data: frame_of(np.ones(D, np.float32), "sparse-dithering:nu=3")
    ),
    "declared shape": on_matrix(bytes, shape=(64, 96)),
    "declared dtype": on_matrix(bytes, dtype="float16"),
    "our newer version": on_matrix(bytes, stype="fewbits/2"),
    "unknown serialisation": on_matrix(bytes, stype="cloudpickle"),
    "raw nonsense": on_matrix(lambda data: b"\x93NUMPY\x01\x00", stype="numpy.ndarray"),
    "an unknown array": tampered(
        lambda content: content["arrays"].__setitem__("new", Array("float32", (D,), STYPE, b""))
    ),
    "no control": tampered(lambda content: content.__setitem__("fewbits", ConfigRecord({"a": 1}))),
    "wrong control": tampered(
        lambda content: content.__setitem__("fewbits", MetricRecord({"protocol": 1}))
    ),
    "ticket": tampered(lambda content: content["fewbits"].__setitem__("ticket", -3)),
    "session": tampered(lambda content: content["fewbits"].__setitem__("session", 7)),
    "base": tampered(lambda content: content["fewbits"].__setitem__("base", "")),
    "exact nonsense": tampered(lambda content: content["fewbits"].__setitem__("base", "none")),
}  # fmt: skip


@pytest.mark.parametrize("name", FROM_SERVER)
def test_a_client_raises_decode_errors_only_and_goes_on(name: str) -> None:
    (own,) = clients(1)
    local = LocalGrid([own])
    grid = CompressedGrid(local, "natural", seed=2)
    grid.send_and_receive([Message(RecordDict({"arrays": model()}), 1, "train")])
    (ticket,) = grid._outbox.tickets([Message(RecordDict({"arrays": model(1)}), 1, "train")])
    held = own.context.state["fewbits.model:arrays"]
    bad = FROM_SERVER[name](ticket.message)
    with pytest.raises(DecodeError):
        own.app(bad, own.context)
    assert own.context.state["fewbits.model:arrays"] is held
    assert len(own.received) == 1
    own.app(ticket.message, own.context)
    assert len(own.received) == 2
    assert equal(own.received[-1], grid.reference["arrays"])


def test_a_change_of_a_model_that_is_not_held_reaches_no_app() -> None:
    (own,) = clients(1)
    grid = CompressedGrid(LocalGrid([own]), "natural")
    grid.send_and_receive([Message(RecordDict({"arrays": model()}), 1, "train")])
    (ticket,) = grid._outbox.tickets([Message(RecordDict({"arrays": model(1)}), 1, "train")])
    for entry, value in (("base", "77"), ("session", "ffffffffffffffff")):
        bad = changed(ticket.message, lambda c, e=entry, v=value: c["fewbits"].__setitem__(e, v))[0]
        reply = own.app(bad, own.context)
        assert reply.content["fewbits"]["stranger"] is True
        assert list(reply.content) == ["fewbits"]
    assert len(own.received) == 1


@pytest.mark.parametrize("way", ["up", "down"])
def test_random_damage_raises_decode_errors_only(way: str) -> None:
    """Bytes of arrays, control entries and descriptions, mutated at random."""
    rng = np.random.default_rng(3)
    (own,) = clients(1)
    local = LocalGrid([own])
    grid = CompressedGrid(local, "natural", seed=2)
    grid.send_and_receive([Message(RecordDict({"arrays": model()}), 1, "train")])
    (ticket,) = grid._outbox.tickets([Message(RecordDict({"arrays": model(1)}), 1, "train")])
    good = own.app(ticket.message, own.context) if way == "up" else ticket.message
    refused = 0
    for _ in range(400):
        (bad,) = changed(good, lambda content: damage(content, rng))
        try:
            if way == "up":
                grid._inbox._reader.read(bad, ticket)
            else:
                state = mod.ClientState(own.context.state)
                mod.received(mod.Request.read(bad.content), bad.content, state)
        except DecodeError:
            refused += 1
    assert refused > 250  # the others hit exact arrays, whose values have no checksum


def damage(content: RecordDict, rng: np.random.Generator) -> None:
    record = content["arrays"]
    names = sorted(record)
    array = record[names[rng.integers(len(names))]]
    fields = {"dtype": array.dtype, "shape": array.shape, "stype": array.stype, "data": array.data}
    kind = rng.integers(4)
    if kind == 0:
        junk = [-1, 2**61, 0, "", "x", 1.5, True, b"\0", [1], "none"]
        keys = sorted(content["fewbits"])
        content["fewbits"][keys[rng.integers(len(keys))]] = junk[rng.integers(len(junk))]
        return
    if kind == 1:
        fields["shape"] = tuple(int(n) for n in rng.integers(-2, 99, rng.integers(0, 5)))
    elif kind == 2:
        fields["stype"] = [STYPE, "numpy.ndarray", "fewbits/0", ""][rng.integers(4)]
    data = bytearray(array.data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(min(len(data), 160)))
        data[at] ^= 1 << int(rng.integers(8))
    fields["data"] = bytes(data[: int(rng.integers(1, len(data) + 1))] if kind == 3 else data)
    for name in names:
        if record[name] is array:
            record[name] = Array(**fields)


@pytest.mark.parametrize(
    "x",
    [
        np.zeros(()), np.zeros(3), np.zeros((2, 3), "f4"), np.asfortranarray(np.ones((2, 3))),
        np.zeros((0, 5)), np.array([True, False]), np.arange(4, dtype=">i4"), np.zeros(2, "c16"),
        np.zeros((1,) * 9, "f2"),
    ],
)  # fmt: skip
def test_what_numpy_saves_is_read_as_it_is(x: np.ndarray) -> None:
    found = values(Array(x))
    assert found.dtype == x.dtype
    assert np.array_equal(found, x)
    assert not found.flags.writeable


def test_numpys_format_is_read_without_evaluating_it() -> None:
    """Text that NumPy would evaluate, and sizes that it would believe."""
    array = Array(np.zeros(4, np.float32))
    start = array.data.index(b"{")
    texts = [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}",
        b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,), }",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (4,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4*1,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (268435456,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 0, 4), }",
        b"{'descr': '<f5', 'fortran_order': False, 'shape': (4,), }",
        b"{'descr': '<f4', 'fortran_order': __import__('os'), 'shape': (4,), }",
    ]
    for text in texts:
        header = text.ljust(118 - 1) + b"\n" if len(text) < 117 else text + b"\n"
        data = array.data[: start - 2] + len(header).to_bytes(2, "little") + header + bytes(16)
        for shape in ((4,), (268435456,)):
            with pytest.raises(DecodeError):
                values(Array("float32", shape, "numpy.ndarray", data))


def test_a_run_loads_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """No unpickling anywhere in a compressed run; nothing compiled or imported while decoding."""
    unpickled: list[str] = []
    inside: list[str] = []
    depth = [0]
    calls = [0]
    listening = [True]

    def listen(event: str, arguments: object) -> None:
        if not listening[0]:
            return
        if event == "pickle.find_class":
            unpickled.append(event)
        if depth[0] and event in ("exec", "compile", "import", "marshal.loads"):
            inside.append(f"{event} {arguments}")

    def watched(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def call(*arguments: object, **named: object) -> object:
            depth[0] += 1
            calls[0] += 1
            try:
                return real(*arguments, **named)
            finally:
                depth[0] -= 1

        monkeypatch.setattr(owner, name, call)

    local = LocalGrid(clients(3, feedback="ef21"))
    grid = CompressedGrid(local, "natural", feedback="ef21")
    watched(mod, "received")
    watched(replies.ReplyReader, "read")
    sys.addaudithook(listen)
    try:
        InOrder(fraction_evaluate=0.0).start(grid, model(), num_rounds=3)
        heard = list(unpickled)
        pickle.loads(pickle.dumps(Message))  # the listener does hear
    finally:
        listening[0] = False
    assert heard == []
    assert unpickled
    assert inside == []
    assert calls[0] == 3 * 3 * 2
    assert not grid.rejections
    assert data_bytes(local.down[-1]) < data_bytes(local.down[0])
