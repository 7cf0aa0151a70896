"""What a hostile client may send: each takes the message and the honest reply."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

import fewbits
from fewbits.flower.arrays import STYPE
from fewbits.wire import frame as wire
from unit.flower.hostile_frames import HUGE, TINY, sealed, subtractive

Attack = Callable[[Message, Message], Sequence[Message]]
KEY, CODED = "matrix", "natural:coder=rans"
EARLIER: dict[int, Message] = {}
"""The first reply of every node, for replays."""
LAST: dict[int, Message] = {}
"""The last reply of every node that reached the server."""


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


def late(sent: Message, reply: Message) -> list[Message]:
    """What it should have sent in the round before."""
    return [LAST[reply.metadata.src_node_id]]


def copied(sent: Message, reply: Message) -> list[Message]:
    """What its honest neighbour sends in this round, or the round before."""
    other = copy(reply)
    other.content = LAST[reply.metadata.src_node_id + 1].content
    return [other]


def copies(number: int) -> Callable[[RecordDict], None]:
    """Many records, all changes of the one that was sent."""

    def change(content: RecordDict) -> None:
        for place in range(number):
            content[f"copy{place}"] = content["arrays"]
            content["fewbits"][f"of:copy{place}"] = "arrays"

    return change


def with_zeros(change: Callable[[RecordDict], None]) -> Attack:
    """A coded frame of zeros, a few bytes, in place of the matrix, and another change after it."""

    def small(content: RecordDict) -> None:
        old = content["arrays"][KEY]
        data = forged(np.zeros(math.prod(old.shape), np.float32), CODED)
        content["arrays"][KEY] = Array(old.dtype, old.shape, old.stype, data)
        change(content)

    return edited(small)


def of_shape(*shape: int) -> bytes:
    """A frame that is one of so many elements by its header, and of none by its bytes."""
    parsed = wire.parse(np.frombuffer(forged(np.ones(96 * 64, np.float32)), np.uint8), 2**30)
    return sealed(replace(parsed.header, shape=shape), parsed.sections)


def exact_cut(part: int) -> Attack:
    def change(content: RecordDict) -> None:
        old = content["arrays"]["bias"]
        data = old.data[: len(old.data) * part // 16]
        content["arrays"]["bias"] = Array(old.dtype, old.shape, old.stype, data)

    return edited(change)


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
    **{f"an exact array cut at {part}/16": exact_cut(part) for part in range(16)},
    "the most elements": frame(lambda data: of_shape(2**62)),
    "the most elements in dimensions": frame(lambda data: of_shape(2**16, 2**16, 2**16)),
    "no elements": frame(lambda data: of_shape(0)),
    "zeros without end": frame(lambda data: forged(np.zeros(2**22, np.float32), CODED)),
    **{
        f"sparse dithering with nu = {nu}": frame(lambda data, nu=nu: subtractive(96 * 64, nu))
        for nu in (TINY, -TINY, -0.0, 1e300, HUGE, np.nan, np.inf, -np.inf)
    },
    "weights in place of a change": edited(_whole_weights),
    "a record that is not compressed": edited(_uncompressed_record),
    "a record more": edited(_ten_times),
    "a record under another name": edited(_renamed),
    "an array less": without("arrays", "bias"),
    "an array more": exact("extra", np.zeros(3)),
    "NaN in an exact array": exact("bias", np.full(64, np.nan, np.float32)),
    "another infinity in a mask": exact("mask", np.full((80, 80), np.inf, np.float32)),
    "another shape of an exact array": exact("bias", np.zeros(65, np.float32)),
    "another byte order": exact("bias", np.zeros(64, ">f4")),
    "complex numbers": exact("bias", np.zeros(64, np.complex64)),
    "long doubles": exact("small", np.zeros((3, 4), np.longdouble)),
    "a thousand records": edited(copies(1000)),
    "three times the model": edited(copies(2)),
    "a name of a megabyte": exact("x" * 2**20, np.zeros(3)),
    "text in an exact array": exact("bias", np.full(64, "x")),
    "weight NaN": metrics(num_examples=float("nan")),
    "weight -1": metrics(num_examples=-1),
    "weight 1e30": metrics(num_examples=1e30),
    "weight 0 of infinite values": metrics(num_examples=0),
    "weight above the limit": metrics(num_examples=2.0**41),
    "weight -infinite": metrics(num_examples=float("-inf")),
    "weight a denormal below zero": metrics(num_examples=-5e-324),
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
    "another feedback": control(feedback="another"),
    "a memory that was never taken": control(memory=12345),
    "a reference that was never sent": control(**{"of:arrays": "other"}),
    "a reference that is empty": control(**{"of:arrays": ""}),
    "a memory of the future": control(memory=2**61),
    "ten thousand references": control(**{f"of:x{place}": "arrays" for place in range(10_000)}),
    "ten thousand metrics": edited(
        lambda content: content["metrics"].update({f"m{place}": 0.5 for place in range(10_000)})
    ),
    "a replay of the first round": replayed,
    "the reply of the last round": late,
    "a copy of another's reply": copied,
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
