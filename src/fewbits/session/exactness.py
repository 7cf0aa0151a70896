"""Advice for a model of which little is compressed, or nothing in the way that was asked for."""

from collections import Counter
from collections.abc import Callable

from fewbits.low_rank import SAVING, most_rank
from fewbits.operators.identity import Identity
from fewbits.policy import Default, Exact
from fewbits.session.routing import ModelParameter, Routing

ENOUGH = 0.5  # the share of compressed values below which users are told
_SMALLER = (4096, 1024, 256, 1)  # limits of the default policy that are tried, in this order


def advice(routing: Routing) -> str | None:
    """A line for the user if something is not as they may expect; else None."""
    found = [text for text in (_unfitted(routing), _little(routing)) if text is not None]
    return "; ".join(found) or None


def _unfitted(routing: Routing) -> str | None:
    """What to say if no tensor travels as factors, though the user has asked for them."""
    own, known = routing.low_rank, [routing.model.known[name] for name in routing.choices]
    if own is None or any(map(routing.is_factored, known)):
        return None
    before = f"{own} sends nothing as factors, so large tensors go as with 'tiny': "
    if any(own.fits(each.shape) for each in known):
        return f"{before}policy= says otherwise of every matrix that fits"
    most, name = max(((most_rank(each.shape), each.name) for each in known), default=(0, ""))
    cure = f"rank={most} fits {name}" if most else "say 'tiny', or name an operator"
    return f"{before}no matrix of m by n numbers has {own.rank} · (m + n) < mn / {SAVING}; {cure}"


def _little(routing: Routing) -> str | None:
    """What to say if less than half of the values are compressed.

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
