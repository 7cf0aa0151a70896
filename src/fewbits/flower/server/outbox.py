"""Encodes outgoing messages; arrays that several nodes share are encoded once."""

from collections.abc import Mapping, Sequence
from copy import copy

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fewbits.flower.control import CONTROL, Request, base_of
from fewbits.flower.server.downlink import Broadcast, Downlink, digest
from fewbits.flower.server.nodes import Nodes
from fewbits.flower.server.ticket import Ticket

_Identity = tuple[tuple[str, bytes], ...]


class Outbox:
    """Turns a strategy's messages into tickets."""

    def __init__(self, session: str, downlink: Downlink, nodes: Nodes) -> None:
        self._session, self._downlink, self._nodes = session, downlink, nodes
        self._number = 0

    def tickets(self, originals: Sequence[Message], *, again: bool = False) -> list[Ticket]:
        """A ticket for each message.

        The arrays that most messages carry are the common model. Other arrays, of strategies that
        give some nodes their own weights, are sent whole. With `again`, for nodes that could not
        use the last message, all arrays are sent whole.
        """
        groups = _groups(originals)
        common = max(groups, key=lambda one: len(groups[one]) if one else 0, default=())
        made: dict[int, Ticket] = {}
        for identity, places in groups.items():
            sent = None
            if identity:
                arrays = dict(originals[places[0]].content.array_records)
                nodes = [originals[place].metadata.dst_node_id for place in places]
                if again:
                    sent = self._downlink.again(arrays, repr(identity).encode())
                elif identity == common:
                    sent = self._downlink.broadcast(arrays, repr(identity).encode(), nodes)
                else:
                    sent = self._downlink.aside(arrays)
            for place in places:
                made[place] = self._ticket(originals[place], sent)
        return [made[place] for place in range(len(originals))]

    def _ticket(self, original: Message, sent: Broadcast | None) -> Ticket:
        self._number += 1
        node = original.metadata.dst_node_id
        if sent is None:
            return Ticket(self._number, node, original, None)
        state = self._nodes.seen(node)
        state.turn += 1
        base, arrays = sent.message(state.held)
        request = Request(
            session=self._session,
            ticket=self._number,
            turn=state.turn,
            version=sent.model.version,
            base=base_of(base),
            memory=state.memory.ticket,
        )
        message = copy(original)
        message.content = RecordDict(
            {**_others(original.content), **arrays, CONTROL: request.write()}
        )
        return Ticket(self._number, node, message, sent.model, state.memory)


def _groups(originals: Sequence[Message]) -> dict[_Identity, list[int]]:
    """Places of messages by the arrays that they carry; each object is hashed once."""
    digests: dict[int, bytes] = {}
    groups: dict[_Identity, list[int]] = {}
    for place, message in enumerate(originals):
        records: Mapping[str, ArrayRecord] = (
            message.content.array_records if message.has_content() else {}
        )
        for record in records.values():
            if id(record) not in digests:
                digests[id(record)] = digest(record)
        identity = tuple((name, digests[id(record)]) for name, record in records.items())
        groups.setdefault(identity, []).append(place)
    return groups


def _others(content: RecordDict) -> dict[str, ConfigRecord | MetricRecord]:
    return {name: own for name, own in content.items() if not isinstance(own, ArrayRecord)}
