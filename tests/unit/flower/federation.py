"""A federation in one process: Flower's records, apps and strategies, and a grid of our own."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

import fewbits.flower

Tamper = Callable[[Message, Message], Sequence[Message]]
"""The message that was sent and the honest reply, to the replies that arrive."""


def model(seed: int = 0) -> ArrayRecord:
    """Something of everything: a matrix, a small one, a bias, a counter, other precisions."""
    rng = np.random.default_rng(seed)
    return ArrayRecord(
        {
            "matrix": Array(rng.standard_normal((96, 64), dtype=np.float32)),
            "small": Array(rng.standard_normal((3, 4), dtype=np.float32)),
            "bias": Array(rng.standard_normal(64, dtype=np.float32)),
            "counter": Array(np.asarray(7)),
            "half": Array(rng.standard_normal((64, 65)).astype(np.float16)),
            "double": Array(rng.standard_normal((65, 64))),
            "mask": Array(np.where(np.eye(80, dtype=bool), 0, -np.inf).astype(np.float32)),
        }
    )


def arrays(record: ArrayRecord) -> dict[str, np.ndarray]:
    return {name: array.numpy() for name, array in record.items()}


def equal(one: ArrayRecord, other: ArrayRecord) -> bool:
    """Same names, dtypes and bits."""
    x, y = arrays(one), arrays(other)
    return x.keys() == y.keys() and all(
        x[name].dtype == y[name].dtype and x[name].tobytes() == y[name].tobytes() for name in x
    )


class Client:
    """Moves every weight at random, remembers what it received."""

    def __init__(self, node: int, mods: Sequence[Any], step: float = 0.1) -> None:
        self.node, self._step = node, step
        self.received: list[ArrayRecord] = []
        self.honest: list[ArrayRecord] = []
        self.context = Context(1, node, {}, RecordDict(), {})
        self.app = ClientApp(mods=list(mods))
        self.app.train()(self._train)
        self.app.evaluate()(self._evaluate)
        self.app.query()(self._query)

    def restart(self) -> None:
        """Lose all that is in memory."""
        self.context = Context(1, self.node, {}, RecordDict(), {})

    def _train(self, message: Message, context: Context) -> Message:
        weights = message.content["arrays"]
        self.received.append(weights)
        rng = np.random.default_rng([self.node, len(self.received)])
        moved = ArrayRecord()
        for name, x in arrays(weights).items():
            change = self._step * rng.standard_normal(x.shape)
            moved[name] = Array(np.asarray((x + change).astype(x.dtype)))
        self.honest.append(moved)
        metrics = MetricRecord({"num-examples": 10 + self.node, "loss": 1.0 / self.node})
        return Message(RecordDict({"arrays": moved, "metrics": metrics}), reply_to=message)

    def _evaluate(self, message: Message, context: Context) -> Message:
        self.received.append(message.content["arrays"])
        metrics = MetricRecord({"num-examples": 10 + self.node, "accuracy": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    def _query(self, message: Message, context: Context) -> Message:
        return Message(RecordDict({"metrics": MetricRecord({"answer": 42})}), reply_to=message)


class LocalGrid(Grid):
    """Hands messages to clients and their replies back, through Flower's own bytes and a tamper."""

    def __init__(self, clients: Iterable[Client], tamper: dict[int, Tamper] | None = None) -> None:
        self.clients = {client.node: client for client in clients}
        self.tamper = tamper or {}
        self.down: list[Message] = []
        self.up: list[Message] = []
        self.lost: set[int] = set()
        self._waiting: dict[str, list[Message]] = {}

    def set_run(self, run: Any) -> None:
        self.told = run

    @property
    def run(self) -> Any:
        return "the run"

    def create_message(self, *arguments: Any, **named: Any) -> Message:
        return Message(*arguments, **named)

    def get_node_ids(self) -> list[int]:
        return sorted(self.clients)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"m{len(self.down)}"
            self.down.append(message)
            ids.append(message.metadata.message_id)
            self._waiting[ids[-1]] = self._answers(message)
        return ids

    def _answers(self, message: Message) -> list[Message]:
        node = message.metadata.dst_node_id
        client = self.clients[node]
        delivered = inflated(message)
        try:
            reply = client.app(delivered, client.context)
        except fewbits.FewbitsError as error:
            from flwr.app import Error

            return [Message(Error(2, str(error)), reply_to=message)]
        replies = self.tamper[node](message, reply) if node in self.tamper else [reply]
        if node in self.lost:
            return []
        self.up += replies
        return [inflated(reply) if reply.has_content() else reply for reply in replies]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [reply for one in message_ids for reply in self._waiting.pop(one, [])]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))


def inflated(message: Message) -> Message:
    """The message as it comes out of Flower's serialisation."""
    from copy import copy

    content = RecordDict()
    for name, record in message.content.items():
        kind = type(record)
        if kind is ArrayRecord:
            own = ArrayRecord()
            for key, array in record.items():
                own[key] = Array.inflate(array.deflate(), array.children)
            content[name] = own
        else:
            content[name] = kind.inflate(record.deflate())
    other = copy(message)
    other.content = content
    return other


def clients(number: int, operator: str = "natural", **options: Any) -> list[Client]:
    mod = fewbits.flower.client_mod(operator, seed=1, **options)
    return [Client(node, [mod]) for node in range(1, number + 1)]


class InOrder(FedAvg):
    """FedAvg that takes the nodes that it is told, in order."""

    nodes: Sequence[int] | None = None

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Grid) -> Any:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        messages.sort(key=lambda message: message.metadata.dst_node_id)
        if self.nodes is None:
            return messages
        return [one for one in messages if one.metadata.dst_node_id in self.nodes]


def data_bytes(message: Message) -> int:
    """Bytes of a message's arrays."""
    records = message.content.array_records.values()
    return sum(len(array.data) for record in records for array in record.values())
