"""Whatever error a client's reply leads to costs that reply only; the server's own are raised."""

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict

from fewbits.errors import DecodeError, SpecError
from fewbits.flower import CompressedGrid
from fewbits.flower.arrays import STYPE, framed, unframed
from fewbits.flower.server import replies as replies_module
from fewbits.operators.sparse_dithering import SparseDithering
from fewbits.registry import operator
from unit.flower.attacks import changed, copies
from unit.flower.federation import InOrder, LocalGrid, clients, equal, model
from unit.flower.hostile_frames import TINY, absurd_frames, subtractive

D = 96 * 64
LIKE = np.zeros((96, 64), np.float32)


class RawGrid(LocalGrid):
    """Hands some nodes' replies over as a Python object that no serialisation has cleaned."""

    raw: Mapping[int, Callable[[Message], object]] = MappingProxyType({})

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        found = super().pull_messages(message_ids)
        return [self.raw.get(one.metadata.src_node_id, lambda same: same)(one) for one in found]


def raising(error: BaseException) -> property:
    def get(self: object) -> object:
        raise error

    return property(get)


def message_with(**fields: object) -> Callable[[Message], object]:
    """The reply, of a class whose given attributes are others."""

    def make(reply: Message) -> object:
        evil = type("Evil", (Message,), fields)
        other = evil.__new__(evil)
        other.__dict__.update(reply.__dict__)
        return other

    return make


def content_with(**fields: object) -> Callable[[Message], object]:
    def make(reply: Message) -> object:
        evil = type("Evil", (RecordDict,), fields)
        other = evil.__new__(evil)
        other.__dict__.update(reply.content.__dict__)
        reply.__dict__["_content"] = other
        return reply

    return make


def array_with(name: str = "matrix", **fields: object) -> Callable[[Message], object]:
    """The reply with an array of which some attributes are what Flower never makes."""

    def make(reply: Message) -> object:
        old = reply.content["arrays"][name]
        known = {"dtype": old.dtype, "shape": old.shape, "stype": old.stype, "data": old.data}
        evil = type("Evil", (Array,), {})
        other = evil.__new__(evil)
        other.__dict__.update({**known, **fields})
        reply.content["arrays"].__dict__["_data"][name] = other  # past the check of types
        return reply

    return make


def describing(error: Exception) -> object:
    def fail(self: object) -> str:
        raise error

    return type("Evil", (), {"__repr__": fail, "__str__": fail, "__eq__": fail, "__hash__": None})()


ERRORS = [
    ZeroDivisionError("float division by zero"), MemoryError(), RecursionError("too deep"),
    OverflowError("too large"), KeyError("x"), AssertionError(), StopIteration(),
    SpecError("a spec of no sense"), OSError(5, "io"), FloatingPointError("\n\x1b[31m" * 100),
    type("Mute", (Exception,), {"__str__": lambda self: 1 / 0, "__repr__": lambda self: 1 / 0})(),
]  # fmt: skip
RAW = {
    **{f"content raises {type(e).__name__}": message_with(content=raising(e)) for e in ERRORS},
    "metadata raises": message_with(metadata=raising(ValueError("no"))),
    "items raise": content_with(items=raising(MemoryError())),
    "get raises": content_with(get=raising(RuntimeError("no"))),
    "has_error raises": message_with(has_error=raising(RuntimeError("no"))),
    "has_content lies": message_with(has_content=lambda self: 7, content=3),
    "content is a list": message_with(content=[1, [2, [3]]]),
    "a shape that is a list of lists": array_with("bias", shape=[[64]]),
    "a shape that is a text": array_with(shape="96"),
    "a shape of floats": array_with(shape=(96.0, math.nan)),
    "a dtype that is a number": array_with(dtype=7),
    "a dtype that describes nothing": array_with(dtype=describing(ValueError("x"))),
    "a kind that is a number": array_with(stype=7),
    "data that is None": array_with(data=None),
    "data that is a text": array_with(data="frame"),
    "data that is strided": array_with(data=memoryview(bytes(4000))[::2]),
    "no data": array_with("bias", data=describing(MemoryError())),
}


def exchange(grid: CompressedGrid, *nodes: int, seed: int = 0) -> list[Message]:
    record = RecordDict({"arrays": model(seed)})
    return grid.send_and_receive([Message(record, node, "train") for node in nodes])


@pytest.mark.parametrize("name", RAW)
def test_no_error_of_a_reply_ends_the_round(name: str) -> None:
    local = RawGrid(clients(3))
    grid = CompressedGrid(local, "natural", seed=2)
    local.raw = {2: RAW[name]}
    answers = exchange(grid, 1, 2, 3)
    good = [reply.metadata.src_node_id for reply in answers if not reply.has_error()]
    assert good == [1, 3]
    (rejection,) = grid.rejections
    assert rejection.node == (0 if name == "metadata raises" else 2)
    assert rejection.reason.isprintable()
    assert 10 < len(rejection.reason) < 200
    local.raw = {}
    assert not any(reply.has_error() for reply in exchange(grid, 1, 2, 3, seed=1))
    assert equal(local.clients[2].received[-1], grid.reference["arrays"])
    assert grid.report().rejected == 1


def test_a_shape_that_is_a_list_is_compared_as_a_shape() -> None:
    local = RawGrid(clients(3))
    local.raw = {2: array_with("bias", shape=[64])}
    assert not any(reply.has_error() for reply in exchange(CompressedGrid(local, "natural"), 1, 2))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_decoding_raises_is_the_clients_fault(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the decoder has a fault that nobody knows of."""
    real = replies_module.unframed
    local = LocalGrid(clients(2))
    local.tamper = {1: lambda sent, reply: changed(reply, mark)}
    grid = CompressedGrid(local, "natural", seed=2)

    def mark(content: RecordDict) -> None:
        old = content["arrays"]["matrix"]
        content["arrays"]["matrix"] = Array(old.dtype, old.shape, old.stype, b"faulty" + old.data)

    def faulty(array: Array, *given: object) -> object:
        if array.data.startswith(b"faulty"):
            raise error
        return real(array, *given)

    monkeypatch.setattr(replies_module, "unframed", faulty)
    answers = exchange(grid, 1, 2)
    assert [reply.has_error() for reply in answers] == [True, False]
    assert [one.node for one in grid.rejections] == [1]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_what_is_meant_to_end_the_process_does(error: BaseException) -> None:
    local = RawGrid(clients(2))
    local.raw = {1: message_with(content=raising(error))}
    with pytest.raises(type(error)):
        exchange(CompressedGrid(local, "natural"), 1, 2)


def test_the_servers_own_faults_are_raised() -> None:
    """A policy of the user, a strategy's message, and the grid below."""
    asked: list[str] = []

    def policy(name: str, shape: tuple[int, ...]) -> None:
        asked.append(name)
        if len(asked) > 7:  # the broadcast has asked for all seven
            raise ZeroDivisionError("the user's")

    grid = CompressedGrid(LocalGrid(clients(2)), "natural", policy=policy)
    with pytest.raises(ZeroDivisionError, match="the user's"):
        exchange(grid, 1, 2)
    assert not grid.rejections

    class Broken(LocalGrid):
        def send_and_receive(self, messages, *, timeout=None):
            raise ConnectionError("no link")

    with pytest.raises(ConnectionError, match="no link"):
        exchange(CompressedGrid(Broken(clients(1)), "natural"), 1)
    bad = ArrayRecord({"matrix": Array("float32", (2,), "numpy.ndarray", b"")})
    with pytest.raises(DecodeError, match="arrays/matrix"):
        CompressedGrid(LocalGrid(clients(1)), "natural").send_and_receive(
            [Message(RecordDict({"arrays": bad}), 1, "train")]
        )


def test_the_operator_is_compared_before_its_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame of 64 bytes whose layout divides by zero does not get so far on a server."""
    frame = subtractive(D, TINY)
    assert len(frame) == 64
    asked: list[object] = []
    monkeypatch.setattr(SparseDithering, "layout", lambda self, *given: asked.append(self))
    with pytest.raises(DecodeError, match="nu=5e-324 is too small"):
        unframed(framed(frame, LIKE), LIKE, operator("natural"))
    assert asked == []


def test_absurd_parameters_of_every_operator_are_left_out() -> None:
    local = LocalGrid(clients(2))
    grid = CompressedGrid(local, "natural", seed=2)
    (ticket, other) = grid._outbox.tickets(
        [Message(RecordDict({"arrays": model()}), node, "train") for node in (1, 2)]
    )
    honest = [local.clients[one.node].app(one.message, local.clients[one.node].context)
              for one in (ticket, other)]  # fmt: skip
    number = 0
    for name, frame in absurd_frames(D):
        number += 1
        bad = changed(
            honest[0],
            lambda content, frame=frame: content["arrays"].__setitem__(
                "matrix", Array("float32", (96, 64), STYPE, frame)
            ),
        )
        answers = grid._inbox.read([*bad, honest[1]], [ticket, other])
        assert [(one.ticket.node, one.checked is None) for one in answers.found] == [
            (1, True), (2, False),
        ], name  # fmt: skip
    assert number > 500
    assert len(grid.rejections) == number
    assert all(one.reason.isprintable() and len(one.reason) < 300 for one in grid.rejections)


def test_a_hostile_servers_parameters_give_a_decode_error_or_its_model() -> None:
    """A client does not know the server's operator: what a model can follow is applied."""
    (own,) = clients(1)
    grid = CompressedGrid(LocalGrid([own]), "natural", seed=2)
    exchange(grid, 1)
    (ticket,) = grid._outbox.tickets([Message(RecordDict({"arrays": model(1)}), 1, "train")])
    refused = 0
    frames = [("known", subtractive(D, TINY)), *absurd_frames(D)]
    for name, frame in frames:
        (bad,) = changed(
            ticket.message,
            lambda content, frame=frame: content["arrays"].__setitem__(
                "matrix", Array("float32", (96, 64), STYPE, frame)
            ),
        )
        held = own.context.state["fewbits.model:arrays"]
        try:
            own.app(bad, own.context)
        except DecodeError:
            refused += 1
            assert own.context.state["fewbits.model:arrays"] is held, name
            continue
        assert np.isfinite(own.received[-1]["matrix"].numpy()).all(), name
        own.context.state["fewbits.model:arrays"] = held
        own.context.state["fewbits.held"]["version"] = int(
            ticket.message.content["fewbits"]["base"]
        )
    assert refused > 0.85 * len(frames)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_servers_message_raises_is_a_decode_error(error: Exception) -> None:
    (own,) = clients(1)
    grid = CompressedGrid(LocalGrid([own]), "natural", seed=2)
    exchange(grid, 1)
    (ticket,) = grid._outbox.tickets([Message(RecordDict({"arrays": model(1)}), 1, "train")])
    content = type("Content", (RecordDict,), {"array_records": raising(error)})
    good = ticket.message.content
    ticket.message.__dict__["_content"] = content(dict(good))
    with pytest.raises(DecodeError):
        own.app(ticket.message, own.context)
    assert len(own.received) == 1
    ticket.message.__dict__["_content"] = good
    own.app(ticket.message, own.context)
    assert equal(own.received[-1], grid.reference["arrays"])


def test_a_change_of_integers_is_refused() -> None:
    """A server never sends one: the array would be rounded to another model."""
    (own,) = clients(1)
    grid = CompressedGrid(LocalGrid([own]), "natural", seed=2)
    weights = ArrayRecord({"whole": Array(np.arange(5000).reshape(50, 100))})
    grid.send_and_receive([Message(RecordDict({"arrays": weights}), 1, "train")])
    moved = ArrayRecord({"whole": Array(np.ones((50, 100), int))})
    (ticket,) = grid._outbox.tickets([Message(RecordDict({"arrays": moved}), 1, "train")])
    frame = subtractive(5000, 3.0)
    ticket.message.content["arrays"]["whole"] = Array("int64", (50, 100), STYPE, frame)
    with pytest.raises(DecodeError, match="arrays/whole"):
        own.app(ticket.message, own.context)


def test_flowers_own_errors_belong_to_the_node_that_was_asked() -> None:
    """SuperLink answers for a node that has gone, under its own number."""
    local = RawGrid(clients(3))
    grid = CompressedGrid(local, "natural", seed=2)

    def gone(reply: Message) -> Message:
        other = Message(Error(3, "Node Unavailable"), reply_to=local.down[-2])
        other.metadata.__dict__["_src_node_id"] = 1 << 40
        return other

    local.raw = {2: gone}
    exchange(grid, 1, 2, 3)
    answers = exchange(grid, 1, 2, 3, seed=1)
    assert sorted(reply.error.reason for reply in answers if reply.has_error()) == [
        "Node Unavailable"
    ]
    assert not grid.rejections
    local.raw = {}
    exchange(grid, 1, 2, 3, seed=2)
    assert equal(local.clients[2].received[-1], grid.reference["arrays"])


def two_messages(grid: CompressedGrid, seed: int = 0) -> list[Message]:
    record = RecordDict({"arrays": model(seed)})
    return grid.send_and_receive([Message(record, node, "train") for node in (1, 1, 2)])


def test_one_ticket_is_answered_once() -> None:
    """A node with two messages answers the first of them twice."""
    local = LocalGrid(clients(2))
    grid = CompressedGrid(local, "natural", seed=2)
    first: list[Message] = []

    def twice(sent: Message, reply: Message) -> list[Message]:
        first.append(reply)
        return [first[0]]

    local.tamper = {1: twice}
    answers = two_messages(grid)
    assert [reply.has_error() for reply in answers] == [False, True, False]
    assert [one.node for one in grid.rejections] == [1]


def test_a_node_that_asks_for_the_model_again_gets_no_second_voice() -> None:
    """Of two messages it answers one, and says of the other that it could not use it."""
    local = LocalGrid(clients(2))
    grid = CompressedGrid(local, "natural", seed=2)
    two_messages(grid)
    answers = two_messages(grid, seed=1)
    assert any(reply.content["fewbits"]["stranger"] for reply in local.up)
    assert sorted(reply.metadata.src_node_id for reply in answers) == [1, 1, 2]
    assert not any(reply.has_error() for reply in answers)


def test_messages_that_could_not_be_pushed_shift_no_others() -> None:
    class Forgetful(LocalGrid):
        def push_messages(self, messages):
            return super().push_messages([one for one in messages if one.metadata.dst_node_id != 1])

    grid = CompressedGrid(Forgetful(clients(3)), "natural", seed=2)
    record = RecordDict({"arrays": model()})
    ids = grid.push_messages([Message(record, node, "train") for node in (1, 2, 3)])
    answers = grid.pull_messages(ids)
    assert [reply.metadata.src_node_id for reply in answers] == [2, 3]
    assert not any(reply.has_error() for reply in answers)
    assert not grid.rejections


def test_a_reply_to_another_nodes_message_takes_nothing_from_it() -> None:
    local = LocalGrid(clients(2))
    grid = CompressedGrid(local, "natural", seed=2)
    record = RecordDict({"arrays": model()})

    def about_the_other(sent: Message, reply: Message) -> list[Message]:
        reply.metadata.__dict__["_reply_to_message_id"] = "m1"
        return [reply]

    local.tamper = {1: about_the_other}
    ids = grid.push_messages([Message(record, node, "train") for node in (1, 2)])
    assert ids == ["m0", "m1"]
    for one, node in zip(ids, (1, 2), strict=True):
        (reply,) = grid.pull_messages([one])
        assert (reply.metadata.src_node_id, reply.has_error()) == (node, False)
    assert not grid._pushed


@pytest.mark.parametrize(("number", "taken"), [(1, True), (2, False), (1000, False)])
def test_a_reply_unfolds_to_two_models_at_most(number: int, taken: bool) -> None:
    local = LocalGrid(clients(1))
    grid = CompressedGrid(local, "natural", seed=2)
    local.tamper = {1: lambda sent, reply: changed(reply, copies(number))}
    small = ArrayRecord({"matrix": model()["matrix"]})
    (reply,) = grid.send_and_receive([Message(RecordDict({"arrays": small}), 1, "train")])
    assert reply.has_error() is not taken
    if not taken:
        assert "names of their own" in grid.rejections[0].reason


def test_metrics_in_great_number_cost_one_reply() -> None:
    local = LocalGrid(clients(3))
    many = MetricRecord({f"m{place}": [0.5] * 10 for place in range(20_000)})
    local.tamper = {2: lambda sent, reply: changed(reply, lambda c: c.__setitem__("many", many))}
    grid = CompressedGrid(local, "natural", seed=2)
    result = InOrder(fraction_evaluate=0.0).start(grid, model(), num_rounds=1)
    assert result.arrays
    assert [one.node for one in grid.rejections] == [2]
