"""The client's mod: it rebuilds the model from changes and sends changes back."""

import logging
from collections.abc import Mapping
from copy import copy

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod

from fewbits.core.operator import Operator
from fewbits.errors import DecodeError, SpecError
from fewbits.feedback import Feedback
from fewbits.flower.arrays import (
    FLOAT_DTYPES,
    Values,
    clipped,
    fault,
    is_framed,
    rebuilt,
    unframed,
    values,
)
from fewbits.flower.client.state import ClientState
from fewbits.flower.client.uplink import compressed
from fewbits.flower.control import CONTROL, Request, Response
from fewbits.flower.direction import ABSENT, Direction, tracking
from fewbits.flower.records import Arrays, blaming, unpacked
from fewbits.policy import Policy
from fewbits.rng import Rng

_LOG = logging.getLogger("flwr")


def client_mod(
    operator: str | Operator,
    *,
    feedback: str | Feedback | None = None,
    policy: Policy | Mapping[str, str | Operator] | None = None,
    seed: int | None = None,
) -> Mod:
    """A mod for `ClientApp(mods=[…])`; the server needs `CompressedGrid` with the same arguments.

    Replies are compressed by the operator as changes of the model that was received. `feedback`
    (`ef14`, `ef21`, `diana`, `ef-bv`) gives the client a memory in `Context.state`. `policy` says
    which arrays are compressed: patterns of names, `{"head.*": "exact"}`, or a function of name and
    shape; by default those with at least 4,096 values, vectors from 65,536 on. Without a `seed` the
    rounding draws fresh entropy.

    Put it before mods that change arrays (differential privacy) and behind those that only count
    bytes (`message_size_mod`). Messages of a server without `CompressedGrid` pass unchanged. A
    message that does not decode raises `DecodeError`, and Flower reports it to the server.
    """
    direction = Direction.of(operator, feedback, policy)
    direction.warn_of_bias()

    def fewbits_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Decode the message, let the app answer, encode the answer."""
        if not message.has_content() or CONTROL not in message.content:
            if message.has_content() and message.content.array_records:
                _LOG.warning("arrays from a server without fewbits' CompressedGrid: left as is")
            return call_next(message, context)
        state = ClientState(context.state)
        request, model = opened(message.content, state)
        if model is None:
            answer = _response(direction, request, memory=0, stranger=True)
            return Message(RecordDict({CONTROL: answer.write()}), reply_to=message)
        state.hold(request.session, request.version, model)
        state.settle(request.memory)
        reply = call_next(_with(message, plain(message.content, model)), context)
        if not reply.has_content():
            return reply
        state = ClientState(context.state)  # the app may have put another in its place
        memory, before = state.memory()
        rng = Rng.fresh() if seed is None else Rng.from_seed(seed)
        own = rng.fork(context.node_id, request.turn)
        sent = compressed(reply.content, unpacked(model), direction, before, own)
        if sent.memories:
            state.propose(request.ticket, sent.memories)
        answer = _response(direction, request, memory=memory, references=sent.references)
        return _with(reply, RecordDict({**sent.records, CONTROL: answer.write()}))

    return fewbits_mod


def opened(
    content: RecordDict, state: ClientState
) -> tuple[Request, dict[str, ArrayRecord] | None]:
    """The server's record and model; whatever goes wrong with a message is a `DecodeError`."""
    try:
        request = Request.read(content)
        return request, received(request, content, state)
    except DecodeError:
        raise
    except Exception as error:
        raise DecodeError(f"the server's message: {fault(error)}") from error


def received(
    request: Request, content: RecordDict, state: ClientState
) -> dict[str, ArrayRecord] | None:
    """The model of a message; None if it is a change of a model that is not held."""
    arrived = dict(content.array_records)
    if request.base == ABSENT:
        unpacked(arrived)  # refuses what is no array
        return arrived
    if not state.holds(request.session, request.base):
        return None
    held = state.model()
    if request.base == str(request.version):
        return held
    known = unpacked(held)
    return {name: _whole(name, record, known) for name, record in arrived.items()}


def _whole(name: str, record: ArrayRecord, known: Arrays) -> ArrayRecord:
    whole = ArrayRecord()
    for key, array in record.items():
        with blaming(name, key):
            if is_framed(array):
                whole[key] = _changed(array, known.get(name, {}).get(key))
            else:
                values(array)
                whole[key] = array
    return whole


def _changed(array: Array, known: Values | None) -> Array:
    if known is None or known.dtype.name not in FLOAT_DTYPES or not known.size:
        raise DecodeError("a change of an array that is not known, or has none")
    message, operator = unframed(array, known)
    try:
        scale = tracking(operator, known.size)
    except SpecError as error:
        raise DecodeError(
            f"no model can follow changes by {clipped(operator.spec)}: {error}"
        ) from error
    return rebuilt(known, message, scale)


def plain(content: RecordDict, model: Mapping[str, ArrayRecord]) -> RecordDict:
    records = {name: record for name, record in content.items() if name != CONTROL}
    copies = {name: ArrayRecord(dict(record)) for name, record in model.items()}  # the app's own
    return RecordDict({**records, **copies})


def _with(message: Message, content: RecordDict) -> Message:
    """The message with another content; the given one is not touched."""
    other = copy(message)
    other.content = content
    return other


def _response(direction: Direction, request: Request, **given: object) -> Response:
    return Response(
        session=request.session,
        ticket=request.ticket,
        version=request.version,
        operator=direction.operator.spec,
        feedback=direction.feedback_spec,
        **given,  # type: ignore[arg-type]
    )
