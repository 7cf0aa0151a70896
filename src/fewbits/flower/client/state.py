"""A client's state in `Context.state`: the model that it knows, and its memories.

A memory is kept twice, from before and from after the last reply. The server's next message says
whether it has taken the reply. A reply that was lost or refused changes nothing.
"""

from collections.abc import Mapping

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fewbits.flower.records import Arrays, as_records, unpacked

_MODEL, _BEFORE, _AFTER = "fewbits.model:", "fewbits.memory:", "fewbits.pending:"
_HELD = "fewbits.held"


class ClientState:
    """Typed access to our records of a client's state; the user's own are left alone."""

    def __init__(self, records: RecordDict) -> None:
        self._records = records
        held = records.get(_HELD)
        self._held = held if isinstance(held, ConfigRecord) else ConfigRecord()

    def holds(self, session: str, base: str) -> bool:
        return self._held.get("session") == session and str(self._held.get("version")) == base

    def model(self) -> dict[str, ArrayRecord]:
        return self._records_of(_MODEL)

    def hold(self, session: str, version: int, model: Mapping[str, ArrayRecord]) -> None:
        """Keep a model; a new session makes all memories void."""
        if self._held.get("session") != session:
            self._drop(_BEFORE)
            self._drop(_AFTER)
            self._held = ConfigRecord()
        self._write(_MODEL, model)
        self._tag(session=session, version=version)

    def settle(self, taken: int) -> None:
        """Keep the memory that the server knows by the ticket `taken` and forget the others."""
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
        """Keep the memory to use if the server takes the reply to `ticket`."""
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
