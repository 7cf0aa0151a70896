"""Advice for a model of which little is compressed, because the default policy sends it exactly."""

from collections import Counter
from collections.abc import Callable

from fewbits.operators.identity import Identity
from fewbits.policy import Default, Exact
from fewbits.session.routing import ModelParameter, Routing

ENOUGH = 0.5  # the share of compressed values below which users are told
_SMALLER = (4096, 1024, 256, 1)  # limits of the default policy that are tried, in this order


def advice(routing: Routing) -> str | None:
    """A line for the user if less than half of the values are compressed; else None.

    Values that the user's own policy sends exactly do not count.
    """
    known = [routing.model.known[name] for name in routing.choices]
    ours = [each for each in known if _by_default(routing, each)]
    asked = ours + [each for each in known if not isinstance(routing.choices[each.name], Exact)]
    total = sum(each.size for each in asked)
    share = 1 - sum(each.size for each in ours) / total if total else 1.0
    if share >= ENOUGH or routing.uplink == Identity():
        return None
    exact: Counter[str] = Counter()
    for each in ours:
        choice = routing.choices[each.name]
        exact[choice.reason if isinstance(choice, Exact) else ""] += each.size
    reasons = ", ".join(f"{count:,} go exact ({why})" for why, count in exact.most_common())
    return (
        f"{100 * share:.0f} % of {total:,} values are compressed: {reasons}; "
        f"{_cure(routing, asked, total)}"
    )


def _by_default(routing: Routing, parameter: ModelParameter) -> bool:
    """Whether the parameter goes exact for a reason of the default policy."""
    return routing.choices[parameter.name] == Default()(parameter.name, parameter.shape)


def _cure(routing: Routing, asked: list[ModelParameter], total: int) -> str:
    """The policy that compresses half of the values or more, the most careful one first."""

    def share(policy: Callable[[str, tuple[int, ...]], Exact | None]) -> float:
        return sum(own.size for own in asked if policy(own.name, own.shape) is None) / total

    for small in _SMALLER:
        if (reached := share(Default(small))) >= ENOUGH:
            return (
                f"policy=fewbits.policy.Default(small={small}) compresses {100 * reached:.0f} %, "
                "smaller matrices too"
            )
    return (
        f"policy={{'*': {str(routing.uplink)!r}}} compresses all, also vectors, which suffer most "
        "from noise"
    )
