"""Defaults for what the user leaves out, and the warnings about them."""

from collections.abc import Mapping
from dataclasses import replace

from fewbits import policy as policies
from fewbits import presets
from fewbits.collectives.payload import UNIT
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback import Feedback
from fewbits.feedback import feedback as named_feedback
from fewbits.low_rank import FittingOrSmall, LowRank, low_rank
from fewbits.operators.identity import Identity
from fewbits.policy import Policy
from fewbits.presets import AUTO
from fewbits.reference.formats import FLOAT32
from fewbits.registry import operator
from fewbits.session.auto import UNCOMPRESSED
from fewbits.session.options import Options
from fewbits.session.routing import ModelParameters, Routing
from fewbits.switch.job import SWITCH
from fewbits.theory.clusters import BETWEEN_NODES
from fewbits.warned import warn_user

Spec = str | Operator
_REST = "tiny"  # for what does not fit `low-rank`
_FACTORED = "sharded", "gather"  # collectives that factors may have


def route(uplink: Spec, downlink: Spec | None, options: Options, model: ModelParameters) -> Routing:
    """The routing with these operators; it warns of a bias that nothing corrects."""
    if (wanted := _low_rank(uplink)) is not None:
        raise SpecError(
            f"{wanted} needs whole gradients in every step, which only fewbits.ddp has: use 'tiny'"
        )
    routing = _routed(uplink, downlink, options.feedback, resolved_policy(options.policy), model)
    if routing.feedback is None and policies.is_biased(routing.uplink):
        warn_user(
            f"{routing.uplink} is biased and nothing corrects it: training may stall short of the "
            "optimum; pass feedback='ef14', or use an unbiased operator such as 'natural'"
        )
    return routing


def routes(
    uplink: Spec, downlink: Spec | None, options: Options, model: ModelParameters
) -> Routing | dict[str, Routing]:
    """The same as `route`; for `auto`, the routings of its candidates, the least lossy first."""
    if (wanted := _low_rank(uplink)) is not None:
        return _factored(wanted, downlink, options, model)
    if uplink != AUTO:
        return route(uplink, downlink, options, model)
    presets.refuse_others(AUTO, downlink=downlink, feedback=options.feedback)
    if options.collective == SWITCH:
        raise SpecError("auto tries several operators, a switch adds one: use natural")
    rules = resolved_policy(options.policy)
    specs = (*presets.EVERYDAY, presets.SLOW_LINK)
    found = {UNCOMPRESSED: Routing(Identity(), Identity(), rules, model)}
    for spec in specs:
        found |= _on_axes(spec, options, model)
    if not options.allow_bias:
        return found
    return found | _thin(options, model) | _on_axes(_REST, options, model)


def _on_axes(spec: str, options: Options, model: ModelParameters) -> dict[str, Routing]:
    """The routing of a spec among all ranks, and if ranks are in nodes also between these."""
    rules = resolved_policy(options.policy)
    found = {spec: _routed(spec, None, None, rules, model)}
    if options.across is not None:
        between = replace(_routed(spec, None, None, rules, model), between=True)
        found[f"{spec} {BETWEEN_NODES}"] = between
    return found


def _thin(options: Options, model: ModelParameters) -> dict[str, Routing]:
    """The routing by factors as a candidate, if some matrix of the model fits."""
    wanted = _low_rank(presets.LOW_RANK)
    assert wanted is not None
    fits = any(wanted.fits(each.shape) for each in model.trained())
    if not fits or options.collective not in _FACTORED or options.across is not None:
        return {}
    return {presets.LOW_RANK: _factored(wanted, None, options, model)}


def _low_rank(uplink: Spec) -> LowRank | None:
    """The stage between ranks that a spec or a preset begins with, if it does."""
    preset = presets.PRESETS.get(uplink) if isinstance(uplink, str) else None
    return low_rank(uplink if preset is None else preset.operator)


def _factored(
    wanted: LowRank, downlink: Spec | None, options: Options, model: ModelParameters
) -> Routing:
    """A routing by factors, and for what does not fit by the preset that sends the largest values.

    Both have memories, which need no word of the user.
    """
    presets.refuse_others(wanted.spec, downlink=downlink, feedback=options.feedback)
    if options.collective not in _FACTORED or options.across is not None:
        given = "across=" if options.across is not None else f"collective={options.collective!r}"
        raise SpecError(f"{wanted} has exchanges of its own: leave {given} out, or use 'tiny'")
    rules = policies.resolved(options.policy, FittingOrSmall(wanted))
    return replace(_routed(_REST, None, None, rules, model), low_rank=wanted)


def _routed(
    uplink: Spec,
    downlink: Spec | None,
    feedback: str | Feedback | None,
    rules: Policy,
    model: ModelParameters,
) -> Routing:
    """A routing; `SpecError` if the feedback cannot correct an operator."""
    for given in (uplink, downlink):
        presets.refuse_reference(given)
    if model.given:
        policies.refuse_unmatched(rules, [each.name for each in model.given])
    preset = presets.expand(uplink, downlink=downlink, feedback=feedback)
    if preset is not None:
        uplink, feedback = preset.operator, preset.feedback
    there = operator(uplink)
    method = None if feedback is None else named_feedback(feedback)
    back = _default_downlink(there, method) if downlink is None else operator(downlink)
    if method is not None:
        method.rule(there, UNIT)
        method.back(back, UNIT)
    return Routing(there, back, rules, model, method)


def _default_downlink(uplink: Operator, feedback: Feedback | None) -> Operator:
    if feedback is not None or not policies.is_biased(uplink):
        return uplink
    coded = any(section.varies for section in uplink.layout(UNIT, FLOAT32))
    return operator("natural:coder=rans" if coded else "natural")


def resolved_policy(policy: Policy | Mapping[str, str | Operator] | None) -> Policy:
    """The user's policy; a mapping of names comes before the default."""
    return policies.resolved(policy, policies.Default())


def refuse_momentum_alone(feedback: Feedback | None, ranks: int) -> None:
    """Refuse momentum of feedback on a single rank, which reduces nothing and would get none."""
    if feedback is not None and ranks == 1 and feedback.has_momentum:
        raise SpecError(
            f"{feedback} has momentum, but one rank alone sends nothing: give the momentum to "
            "the optimizer"
        )
