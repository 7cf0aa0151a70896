"""The small record that travels beside the arrays in both directions.

No value is ever empty, because Flower's own byte counter fails on empty strings.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from fewbits.errors import DecodeError, VersionError
from fewbits.flower.arrays import clipped
from fewbits.flower.direction import ABSENT

CONTROL = "fewbits"
PROTOCOL = 1
_REFERENCE = "of:"  # the prefix of entries that say which record a reply's record is measured from


@dataclass(frozen=True, slots=True)
class Request:
    """The server's record of a message.

    `version` is the model after this message; its arrays are changes against the version `base`, or
    the model itself if that is `none`. `memory` is the ticket of the last reply whose memory the
    server has taken over, 0 if there is none. `turn` counts the node's messages: with a seed it
    names the random stream of the reply, whatever other nodes do.
    """

    session: str
    ticket: int
    turn: int
    version: int
    base: str
    memory: int

    def write(self) -> ConfigRecord:
        return _record(self)

    @classmethod
    def read(cls, content: RecordDict) -> "Request":
        """The record in a message; `DecodeError` if it is missing or incomplete."""
        entries = _entries(content)
        return cls(**_values(cls, entries))


@dataclass(frozen=True, slots=True)
class Response:
    """The client's record of a reply.

    `memory` is the ticket of the reply whose memory it started from. `references` names, for each
    of the reply's compressed records, the received record that it was subtracted from. `stranger`
    means that the client does not hold the version that the message was a change against.
    """

    session: str
    ticket: int
    version: int
    operator: str
    feedback: str
    memory: int
    stranger: bool = False
    references: Mapping[str, str] = field(default_factory=dict)

    def write(self) -> ConfigRecord:
        record = _record(self)
        for name, reference in self.references.items():
            record[_REFERENCE + name] = reference
        return record

    @classmethod
    def read(cls, content: RecordDict) -> "Response":
        """The record in a reply; `DecodeError` if it is missing or incomplete."""
        entries = _entries(content)
        references = {
            key.removeprefix(_REFERENCE): _text(entries, key)
            for key in entries
            if key.startswith(_REFERENCE)
        }
        return cls(**_values(cls, entries), references=references)


def base_of(version: int | None) -> str:
    return ABSENT if version is None else str(version)


def _record(value: Request | Response) -> ConfigRecord:
    record = ConfigRecord({"protocol": PROTOCOL})
    for each in fields(value):
        if each.name != "references":
            record[each.name] = getattr(value, each.name)
    return record


def _entries(content: RecordDict) -> Mapping[str, object]:
    record = content.get(CONTROL)
    if not isinstance(record, ConfigRecord):
        raise DecodeError(
            f"no record {CONTROL!r}: is fewbits.flower in use on both ends (client_mod on clients, "
            "CompressedGrid on the server)?"
        )
    protocol = _whole(record, "protocol")
    if protocol != PROTOCOL:
        raise VersionError(f"protocol {protocol}, this fewbits speaks {PROTOCOL}: upgrade fewbits")
    return record


def _values(cls: type[Request | Response], entries: Mapping[str, object]) -> dict[str, Any]:
    """The entries of the fields that hold one value, each checked by its type."""
    readers = {each.name: _READERS.get(each.type) for each in fields(cls)}
    return {name: reader(entries, name) for name, reader in readers.items() if reader is not None}


def _whole(entries: Mapping[str, object], name: str) -> int:
    value = entries.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise DecodeError(f"{name} must be a whole number, got {clipped(value)}")
    return value


def _text(entries: Mapping[str, object], name: str) -> str:
    value = entries.get(name)
    if not isinstance(value, str) or not value or len(value) > 1000:
        raise DecodeError(f"{clipped(name)} must be a short text, got {clipped(value)}")
    return value


def _flag(entries: Mapping[str, object], name: str) -> bool:
    value = entries.get(name)
    if not isinstance(value, bool):
        raise DecodeError(f"{name} must be true or false, got {clipped(value)}")
    return value


_READERS: dict[Any, Callable[[Mapping[str, object], str], int | str | bool]] = {
    int: _whole,
    str: _text,
    bool: _flag,
}
