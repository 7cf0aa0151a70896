"""What a rank needs before its first round: vectors, their parts, and the way that these travel."""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import NamedTuple

from torch import nn

from fewbits.attached import described, placed
from fewbits.core.operator import Operator
from fewbits.localsgd import fragments, vectors
from fewbits.localsgd.inside import Inside
from fewbits.localsgd.options import LocalOptions
from fewbits.localsgd.outer import Outer
from fewbits.localsgd.rounds import Rounds
from fewbits.localsgd.standing import Schedule, Standing
from fewbits.policy import Exact, Policy, refuse_unmatched
from fewbits.session import ModelParameter, ModelParameters, Routing, resolved_policy


class RoundParts(NamedTuple):
    """The rounds, where their values lie, how they travel, and the parameters and buffers."""

    standing: Standing
    device: str
    routing: Routing
    options: LocalOptions
    given: list[ModelParameter]


def prepared(
    model: nn.Module,
    chosen: LocalOptions,
    inside: Inside | None,
    outer: Outer,
    route: Callable[[LocalOptions, ModelParameters], Routing],
) -> RoundParts:
    """Everything for a model on a rank of an island, or on one that has the model alone."""
    named = vectors.trained(model)
    buffers = vectors.averaged_buffers(model, chosen.average_buffers)
    lies, _ = placed(own for _, own in named)
    device = "cpu" if lies is None or chosen.staged else lies
    given = [described(name, own) for name, own in (*named, *buffers)]
    wanted, held = resolved_policy(chosen.policy), {name for name, _ in buffers}
    refuse_unmatched(wanted, [*dict(model.named_parameters()), *held])
    chosen = replace(chosen, policy=_exact_buffers(wanted, held, vectors.wholes(model)))
    flat = vectors.of(model, named, buffers, device)
    parts, part = (1, 0) if inside is None else (inside.parts, inside.part)
    routing, shares = fragments.routed(
        flat, route(chosen, ModelParameters(given)), chosen.fragments, parts, part
    )
    overlap = bool(chosen.overlap)
    rounds = [Rounds(each, momentum=outer.has_momentum, overlap=overlap) for each in flat]
    return RoundParts(
        Standing(rounds, _schedule(chosen), shares, part), device, routing, chosen, given
    )


def _schedule(options: LocalOptions) -> Schedule:
    return Schedule(options.local_steps, options.fragments, options.delay, float(options.blend))


def _exact_buffers(
    policy: Policy, buffers: Container[str], wholes: Mapping[str, tuple[int, ...]]
) -> Policy:
    """The policy, with buffers sent exactly, and with the whole shapes of sharded parameters."""

    def choose(name: str, shape: tuple[int, ...]) -> Operator | Exact | str | None:
        if name in buffers:
            return Exact("averaged buffers")
        return policy(name, wholes.get(name, shape))

    return choose
