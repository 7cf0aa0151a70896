"""What a client keeps in `Context.state`: the model that it knows, and its memories.

A memory is kept twice: as it was before the last reply, and as that reply has left it. The server's
next message says whether it has taken the reply; a reply that was lost or refused leaves no trace.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fewbits.errors import DecodeError, EncodeError, SpecError
from fewbits.flower.arrays import Values, clipped, packed, values

Arrays = dict[str, dict[str, Values]]
"""Values by record and name."""

_MODEL, _BEFORE, _AFTER = "fewbits.model:", "fewbits.memory:", "fewbits.pending:"
_HELD = "fewbits.held"


class State:
    """Typed access to our records of a client's state; the user's own are left alone."""

    def __init__(self, records: RecordDict) -> None:
        self._records = records
        held = records.get(_HELD)
        self._held = held if isinstance(held, ConfigRecord) else ConfigRecord()

    def holds(self, session: str, base: str) -> bool:
        """Whether the model of this version is here."""
        return self._held.get("session") == session and str(self._held.get("version")) == base

    def model(self) -> dict[str, ArrayRecord]:
        """The model that is held."""
        return self._records_of(_MODEL)

    def hold(self, session: str, version: int, model: Mapping[str, ArrayRecord]) -> None:
        """Keep a model. With another session nothing that was remembered has a meaning."""
        if self._held.get("session") != session:
            self._drop(_BEFORE)
            self._drop(_AFTER)
            self._held = ConfigRecord()
        self._write(_MODEL, model)
        self._tag(session=session, version=version)

    def settle(self, taken: int) -> None:
        """Go on from the memory that the server knows by the ticket `taken`; forget the others."""
        if taken and self._held.get("after") == taken:
            self._write(_BEFORE, self._records_of(_AFTER))
        elif not taken or self._held.get("before") != taken:
            self._drop(_BEFORE)
            taken = 0
        self._drop(_AFTER)
        self._tag(before=taken, after=0)

    def memory(self) -> tuple[int, Arrays]:
        """The memory to start from, and the ticket that the server knows it by."""
        before = self._held.get("before")
        return (before if isinstance(before, int) else 0), unpacked(self._records_of(_BEFORE))

    def propose(self, ticket: int, memories: Arrays) -> None:
        """The memory if the reply to `ticket` is taken."""
        self._write(_AFTER, as_records(memories))
        self._tag(after=ticket)

    def _tag(self, **entries: str | int) -> None:
        for name, value in entries.items():
            self._held[name] = value
        self._records[_HELD] = self._held

    def _records_of(self, prefix: str) -> dict[str, ArrayRecord]:
        return {
            name.removeprefix(prefix): record
            for name, record in self._records.items()
            if name.startswith(prefix) and isinstance(record, ArrayRecord)
        }

    def _drop(self, prefix: str) -> None:
        for name in [name for name in self._records if name.startswith(prefix)]:
            del self._records[name]

    def _write(self, prefix: str, records: Mapping[str, ArrayRecord]) -> None:
        self._drop(prefix)
        for name, record in records.items():
            self._records[prefix + name] = record


def unpacked(records: Mapping[str, ArrayRecord]) -> Arrays:
    """The values of all records; `DecodeError` names the array that has none."""
    found: Arrays = {}
    for record, arrays in records.items():
        own = found[record] = {}
        for name, array in arrays.items():
            with blaming(record, name):
                own[name] = values(array)
    return found


def as_records(arrays: Mapping[str, Mapping[str, Values]]) -> dict[str, ArrayRecord]:
    """Values as Flower packs them."""
    return {
        record: ArrayRecord({name: packed(x) for name, x in own.items()})
        for record, own in arrays.items()
    }


@contextmanager
def blaming(record: str, name: str) -> Iterator[None]:
    """Errors from here say which array they are about."""
    try:
        yield
    except (DecodeError, EncodeError, SpecError) as error:
        raise type(error)(f"{clipped(f'{record}/{name}')}: {error}") from error
