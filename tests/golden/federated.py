"""Golden states of Flower's clients, and digests of all that a small federation has sent.

`python tests/golden/federated.py` makes what is missing, with the fewbits of the interpreter that
runs it, and never overwrites. The files in `clients` were made by commit d55dedf. A client's state
is what Flower keeps between rounds; beside it lies the message that came next. Cases whose frames
are of wire version 2 now have what is sent in `expected-2.json`; all else of theirs holds.
"""

import hashlib
import json
import sys
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Packed
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

import fewbits.flower

FOLDER = Path(__file__).with_name("clients")
EXPECTED, EXPECTED_2 = "expected.json", "expected-2.json"
REVISED = ("ef14",)
ENDS = ("state", "message")
NODES, ROUNDS = (1, 2), 4
SHAPES = {"matrix": (24, 9), "bias": (31,), "half": (5, 7)}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "natural": ("natural", {}),
    "ef14": ("natural:coder=rans", {"feedback": "ef14"}),
    "ef21": ("natural", {"feedback": "ef21"}),
    "diana": ("standard-dithering", {"feedback": "diana"}),
}


def everything(name: str, shape: tuple[int, ...]) -> None:
    """The policy that compresses every tensor."""


def weights(*seed: int) -> ArrayRecord:
    """Whole numbers times powers of two, which no machine rounds apart."""
    record = ArrayRecord()
    for index, (name, shape) in enumerate(SHAPES.items()):
        source = np.random.default_rng([index, *seed])
        values = source.integers(-512, 512, shape) * 2.0 ** -source.integers(8, 12, shape)
        record[name] = Array(values.astype(np.float16 if name == "half" else np.float32))
    return record


class Client:
    """Answers each message with weights that its node's number and its turn decide."""

    def __init__(self, case: str, node: int, state: RecordDict, turn: int = 0) -> None:
        operator, options = CASES[case]
        mod = fewbits.flower.client_mod(operator, policy=everything, seed=1, **options)
        self.node, self.turn = node, turn
        self.context = Context(1, node, {}, state, {})
        self.app = ClientApp(mods=[mod])
        self.app.train()(self._train)

    def _train(self, message: Message, context: Context) -> Message:
        self.turn += 1
        content = RecordDict({"arrays": weights(self.node, self.turn)})
        content["metrics"] = MetricRecord({"num-examples": 10 + self.node})
        return Message(content, reply_to=message)

    def answer(self, content: RecordDict, message_id: str) -> Message:
        """The reply to a message of this content."""
        return self.app(addressed(content, self.node, message_id), self.context)


def addressed(content: RecordDict, node: int, message_id: str) -> Message:
    """A message to a node."""
    message = Message(content, dst_node_id=node, message_type="train")
    message.metadata.__dict__["_message_id"] = message_id
    return message


class Wire(Grid):
    """Hands packed messages to clients, and keeps what has crossed."""

    def __init__(self, clients: Iterable[Client]) -> None:
        self.clients = {client.node: client for client in clients}
        self.crossed: list[RecordDict] = []
        self.before: dict[int, bytes] = {}  # each client's state when its last message came
        self.last: dict[int, bytes] = {}

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = f"m{len(self.crossed)}"
            self.before[node] = packed(self.clients[node].context.state)
            self.last[node] = packed(message.content)
            self.crossed.append(unpacked(self.last[node]))
            arrived = copy(message)
            arrived.content = unpacked(self.last[node])
            reply = self.clients[node].app(arrived, self.clients[node].context)
            self.crossed.append(unpacked(packed(reply.content)))
            reply.content = unpacked(packed(reply.content))
            replies.append(reply)
        return replies

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any: ...

    def create_message(self, *arguments: Any, **named: Any) -> Message:
        return Message(*arguments, **named)

    def get_node_ids(self) -> list[int]:
        return sorted(self.clients)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        raise NotImplementedError


def packed(records: RecordDict) -> bytes:
    """As Flower writes them."""
    content: bytes = recorddict_to_proto(records).SerializeToString(deterministic=True)
    return content


def unpacked(content: bytes) -> RecordDict:
    """As Flower reads them."""
    return recorddict_from_proto(Packed.FromString(content))


def digest(records: RecordDict) -> str:
    """SHA-256 of all records, whatever their order; a server's random name does not count."""
    hasher = hashlib.sha256()
    for name, record in sorted(records.items()):
        for key, value in sorted(record.items()):
            if isinstance(value, Array):
                text = f"{name} {key} {value.dtype} {value.shape} {value.stype} "
                hasher.update(text.encode() + value.data)
            elif not (isinstance(record, ConfigRecord) and key == "session"):
                hasher.update(f"{name} {key} {value!r} ".encode())
    return hasher.hexdigest()


def federated(case: str) -> tuple[Wire, list[str]]:
    """A whole federation, and digests of what the server rebuilds from the replies."""
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    operator, options = CASES[case]
    wire = Wire(Client(case, node, RecordDict()) for node in NODES)
    grid = fewbits.flower.CompressedGrid(wire, operator, policy=everything, seed=2, **options)
    rebuilt = []
    for number in range(ROUNDS):
        content = {node: RecordDict({"arrays": weights(9, number)}) for node in NODES}
        replies = grid.send_and_receive([addressed(content[node], node, "") for node in NODES])
        rebuilt += [digest(reply.content) for reply in replies]
    return wire, rebuilt


def transcript(case: str) -> dict[str, list[str]]:
    """Digests of what crosses the wire in each direction, and of what the server rebuilds."""
    wire, rebuilt = federated(case)
    crossed = [digest(content) for content in wire.crossed]
    return {"down": crossed[::2], "up": crossed[1::2], "rebuilt": rebuilt}


def resumed(case: str) -> dict[str, str]:
    """The answer of a client that goes on from its golden state, and its next state."""
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    state, message = (unpacked((FOLDER / f"{case}.{end}").read_bytes()) for end in ENDS)
    client = Client(case, NODES[0], state, ROUNDS - 1)
    reply = client.answer(message, "m")
    return {"reply": digest(reply.content), "state": digest(client.context.state)}


def main() -> None:
    """Make what is missing, and say what was made."""
    expected = json.loads((FOLDER / EXPECTED).read_text())
    made = [case for case in CASES if case not in expected]
    for case in made:
        wire, _ = federated(case)
        for end, content in zip(ENDS, (wire.before, wire.last), strict=True):
            with (FOLDER / f"{case}.{end}").open("xb") as file:
                file.write(content[NODES[0]])
        expected[case] = {"transcript": transcript(case), "resumed": resumed(case)}
    (FOLDER / EXPECTED).write_text(json.dumps(expected, indent=2) + "\n")
    if not (FOLDER / EXPECTED_2).exists():
        known = {
            case: {"transcript": transcript(case), "resumed": resumed(case)} for case in REVISED
        }
        (FOLDER / EXPECTED_2).write_text(json.dumps(known, indent=2) + "\n")
    sys.stdout.write(f"{len(made)} clients written {' '.join(made)}\n")


if __name__ == "__main__":
    main()
