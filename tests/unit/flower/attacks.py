"""What a hostile client may send: each takes the message and the honest reply."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

import fewbits
from fewbits.flower.arrays import STYPE

Attack = Callable[[Message, Message], Sequence[Message]]
KEY = "matrix"
EARLIER: dict[int, Message] = {}
"""The first reply of every node, for replays."""


def changed(reply: Message, change: Callable[[RecordDict], None]) -> list[Message]:
    """The reply with another content; records are copied one level deep."""
    content = RecordDict({name: record.copy() for name, record in reply.content.items()})
    change(content)
    other = copy(reply)
    other.content = content
    return [other]


def frame(edit: Callable[[bytes], bytes]) -> Attack:
    """Another frame for the matrix."""

    def change(content: RecordDict) -> None:
        old = content["arrays"][KEY]
        content["arrays"][KEY] = Array(old.dtype, old.shape, old.stype, edit(old.data))

    return lambda sent, reply: changed(reply, change)


def array(**fields: object) -> Attack:
    """Another description of the matrix."""

    def change(content: RecordDict) -> None:
        old = content["arrays"][KEY]
        known = {"dtype": old.dtype, "shape": old.shape, "stype": old.stype, "data": old.data}
        content["arrays"][KEY] = Array(**{**known, **fields})

    return lambda sent, reply: changed(reply, change)


def control(**entries: object) -> Attack:
    def change(content: RecordDict) -> None:
        for name, value in entries.items():
            content["fewbits"][name] = value

    return lambda sent, reply: changed(reply, change)


def metrics(**entries: object) -> Attack:
    def change(content: RecordDict) -> None:
        for name, value in entries.items():
            content["metrics"][name.replace("_", "-")] = value

    return lambda sent, reply: changed(reply, change)


def edited(change: Callable[[RecordDict], None]) -> Attack:
    return lambda sent, reply: changed(reply, change)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def forged(values: np.ndarray, operator: str = "natural") -> bytes:
    """A frame that is right in itself."""
    return bytes(fewbits.compress(values, operator, seed=3, nonfinite="carry"))


def poisoned(value: float) -> np.ndarray:
    x = np.full(96 * 64, 0.1, np.float32)
    x[17] = value
    return x


def overflow(content: RecordDict) -> None:
    """A change that is finite in float32 and leads out of float16."""
    old = content["arrays"]["half"]
    data = forged(np.full(64 * 65, 1e5, np.float32))
    content["arrays"]["half"] = Array(old.dtype, old.shape, old.stype, data)


def exact(name: str, x: np.ndarray) -> Attack:
    return edited(lambda content: content["arrays"].__setitem__(name, Array(np.asarray(x))))


def replayed(sent: Message, reply: Message) -> list[Message]:
    """Its own reply of the first round."""
    return [EARLIER[reply.metadata.src_node_id]]


def stolen(sent: Message, reply: Message) -> list[Message]:
    """What another client had sent, under its own name."""
    other = copy(reply)
    other.content = next(
        EARLIER[node].content for node in EARLIER if node != reply.metadata.src_node_id
    )
    return [other]


def as_stranger(sent: Message, reply: Message) -> list[Message]:
    """Says for ever that it does not hold the model."""
    return changed(reply, lambda content: content["fewbits"].__setitem__("stranger", True))


def drop(name: str) -> Attack:
    return edited(lambda content: content.__delitem__(name))


def without(record: str, key: str) -> Attack:
    return edited(lambda content: content[record].__delitem__(key))


def _huge(data: bytes) -> bytes:
    """The header claims 2^32 - 1 elements; the checksum is repaired."""
    import native_tables as native

    body = bytearray(data[:-4])
    at = body.index((96 * 64).to_bytes(2, "little"))
    body[at : at + 2] = b"\xff\xff"
    return bytes(body) + native.crc32c(np.frombuffer(bytes(body), np.uint8)).to_bytes(4, "little")


def _whole_weights(content: RecordDict) -> None:
    content["arrays"][KEY] = Array(np.zeros((96, 64), np.float32))


def _uncompressed_record(content: RecordDict) -> None:
    content["arrays"] = ArrayRecord({KEY: Array(np.zeros((96, 64), np.float32))})


def _ten_times(content: RecordDict) -> None:
    content["more"] = ArrayRecord({"junk": Array(np.zeros((960, 64), np.float32))})


def _renamed(content: RecordDict) -> None:
    content["weights"] = content["arrays"]
    del content["arrays"]


ATTACKS: dict[str, Attack] = {
    **{
        f"cut at {part}/16": frame(lambda data, part=part: data[: len(data) * part // 16])
        for part in range(16)
    },
    "a bit flipped in the header": frame(partial(flipped, at=5)),
    "a bit flipped in the sections": frame(lambda data: flipped(data, len(data) // 2)),
    "a bit flipped in the checksum": frame(lambda data: flipped(data, len(data) - 1)),
    "trailing bytes": frame(lambda data: data + b"\0"),
    "not a frame": frame(lambda data: b"\x80\x04]\x94." * 100),  # a pickle
    "more elements than the model": frame(_huge),
    "ten times the size": frame(lambda data: forged(np.ones(960 * 64, np.float32))),
    "another shape": frame(lambda data: forged(np.ones((96, 64), np.float32))),
    "another dtype": frame(lambda data: forged(np.ones(96 * 64, np.float64))),
    "another operator": frame(lambda data: forged(np.ones(96 * 64, np.float32), "identity")),
    "NaN in a frame": frame(lambda data: forged(poisoned(np.nan))),
    "infinity in a frame": frame(lambda data: forged(poisoned(np.inf))),
    "a change that overflows": edited(lambda content: overflow(content)),
    "a declared shape of its own": array(shape=(64, 96)),
    "a declared negative shape": array(shape=(-1, 64)),
    "a declared dtype of its own": array(dtype="float64"),
    "another version of our arrays": array(stype="fewbits/2"),
    "an unknown serialisation": array(stype="pickle"),
    "numpy's pickled objects": array(
        stype="numpy.ndarray", data=b"\x93NUMPY\x01\x00v\x00{'descr': '|O'"
    ),
    "weights in place of a change": edited(_whole_weights),
    "a record that is not compressed": edited(_uncompressed_record),
    "a record more": edited(_ten_times),
    "a record under another name": edited(_renamed),
    "an array less": without("arrays", "bias"),
    "an array more": exact("extra", np.zeros(3)),
    "NaN in an exact array": exact("bias", np.full(64, np.nan, np.float32)),
    "another infinity in a mask": exact("mask", np.full((80, 80), np.inf, np.float32)),
    "another shape of an exact array": exact("bias", np.zeros(65, np.float32)),
    "text in an exact array": exact("bias", np.full(64, "x")),
    "weight NaN": metrics(num_examples=float("nan")),
    "weight -1": metrics(num_examples=-1),
    "weight 1e30": metrics(num_examples=1e30),
    "weight infinite": metrics(num_examples=float("inf")),
    "weight a list": metrics(num_examples=[1, 2]),
    "loss NaN": metrics(loss=float("nan")),
    "loss a list": metrics(loss=[1.0, 2.0]),
    "a metric more": metrics(extra=1.0),
    "a metric less": without("metrics", "num-examples"),
    "no metrics": drop("metrics"),
    "a metric record more": edited(
        lambda content: content.__setitem__("m2", MetricRecord({"num-examples": 1}))
    ),
    "no control record": drop("fewbits"),
    "an empty control record": edited(
        lambda content: content.__setitem__("fewbits", ConfigRecord())
    ),
    "control of the wrong kind": edited(
        lambda content: content.__setitem__("fewbits", MetricRecord({"ticket": 1}))
    ),
    "another protocol": control(protocol=9),
    "another session": control(session="0123456789abcdef"),
    "a foreign round": control(ticket=1),
    "a foreign version": control(version=10**9),
    "a negative ticket": control(ticket=-1),
    "a ticket that is a text": control(ticket="1"),
    "another plan": control(operator="identity"),
    "another feedback": control(feedback="ef14"),
    "a memory that was never taken": control(memory=12345),
    "a reference that was never sent": control(**{"of:arrays": "other"}),
    "a reference that is empty": control(**{"of:arrays": ""}),
    "a replay of the first round": replayed,
    "a reply of another client": stolen,
    "a duplicate": lambda sent, reply: [reply, reply],
    "three replies": lambda sent, reply: [reply, *frame(lambda data: data[1:])(sent, reply), reply],
    "for ever a stranger": as_stranger,
    "nothing": lambda sent, reply: [
        *changed(reply, lambda content: [content.__delitem__(name) for name in list(content)])
    ],
    "frames for every array": lambda sent, reply: changed(
        reply,
        lambda content: [
            content["arrays"].__setitem__(
                name, Array(a.dtype, a.shape, STYPE, forged(np.zeros(7, np.float32)))
            )
            for name, a in list(content["arrays"].items())
        ],
    ),
}
SILENT = {"disconnects": lambda sent, reply: []}
