"""The options of all adapters, each declared and checked once.

Functions that take options are marked by `@takes(...)` and `**options: Unpack[...]`. `Options` has
the defaults and the help; the dictionaries name the options of each adapter.
"""

# ruff: noqa: RUF009 (`option` makes a field, no value that instances would share)

import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import wraps
from typing import Any, Self, TypedDict, TypeVar, cast, get_args

from fewbits.collectives.progress import NonFinite
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback import Feedback
from fewbits.policy import Policy
from fewbits.switch.job import SWITCH, Aggregators
from fewbits.warned import warn_user

COLLECTIVES = ("sharded", "star", "gather", SWITCH)
REDUCE_SCATTER = "reduce-scatter"
_RENAMED = {"worker": "uplink", "master": "downlink", "scheme": "collective"}
_F = TypeVar("_F", bound=Callable[..., Any])


class ScatterOptions(TypedDict, total=False):
    """The options of every adapter."""

    feedback: str | Feedback | None
    policy: Policy | Mapping[str, str | Operator] | None
    nonfinite: NonFinite
    seed: int
    timeout: float
    threads: int
    device: str | None
    staged: bool


class ShardOptions(ScatterOptions, total=False):
    """The options of adapters whose ranks keep a shard each."""

    inside: str | Operator | None
    gather: str | None


class MeanOptions(ScatterOptions, total=False):
    """The options of adapters that give all ranks the whole mean."""

    collective: str


class GradientOptions(MeanOptions, total=False):
    """The options of adapters that do so in every step."""

    aggregators: Sequence[str] | Aggregators
    allow_bias: bool
    across: Any
    on_failure: str
    meeting: Any


def routed(_: object) -> str:
    """Of an option that the routing has taken in: the configuration asks the routing for it."""
    raise AssertionError("the routing describes this option")


def option(
    default: Any,
    help: str,
    *,
    agreed: Callable[[Any], str | Mapping[str, str]] | None = None,
    free: str = "",
) -> Any:
    """A field of options, with the text that `help()` shows.

    Ranks agree on what `agreed` makes of its value, or `free` says why they need not.
    """
    return field(default=default, metadata={"help": help, "agreed": agreed, "free": free})


def _is_device(name: object) -> bool:
    return isinstance(name, str) and name.partition(":")[0] in ("cpu", "cuda", "interpreted")


def listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


def _open_fields(given: Sequence[str] | Aggregators) -> dict[str, str]:
    """The text of each field of aggregators; of one that may be secret, whether it is set."""
    own = given if isinstance(given, Aggregators) else Aggregators(tuple(given))
    found = {}
    for each in fields(own):
        value = getattr(own, each.name)
        if isinstance(value, tuple):
            value = listed(value)
        elif not isinstance(value, int | float) or not each.repr:
            value = "yes" if value else "no"
        found[each.name] = str(value)
    return found


@dataclass(frozen=True, slots=True)
class Options:
    """How vectors travel; `SpecError` for bad values."""

    feedback: str | Feedback | None = option(
        None,
        "gives both directions a memory, without which biased operators do not converge: `ef14` "
        "adds the error to the next gradient, `ef21`, `diana` and `ef-bv` send changes of the "
        "gradient.",
        agreed=routed,
    )
    policy: Policy | Mapping[str, str | Operator] | None = option(
        None,
        'says which tensors are compressed: patterns of names, `{"head.*": "exact"}`, or a '
        "function of name and shape; by default one-dimensional and small tensors go exact.",
        agreed=routed,
    )
    nonfinite: NonFinite = option(
        "propagate",
        "`propagate` NaN and infinity, `skip` the step on all ranks (gradients are zeroed and "
        "`skipped` is True), or `raise` on all ranks; memories never take them up.",
        agreed=str,
    )
    seed: int = option(0, "the seed of all rounding; the same on all ranks.", agreed=str)
    timeout: float = option(
        60.0,
        "if a rank does not answer for this many seconds, all others raise `PeerError`.",
        free="it changes no message, only how long this rank waits for one",
    )
    threads: int = option(
        1,
        "threads of the codec; results do not depend on their number.",
        free="every number of threads gives the same bytes",
    )
    device: str | None = option(
        None,
        "which backend works on the values; by default that of the device where they lie. "
        "`interpreted` runs a device's kernels on CPU tensors, for tests.",
        free="every backend gives the same bytes",
    )
    staged: bool = option(
        False,
        "copies values of a device to the host and back, for what a device cannot do.",
        free="ranks are told how the values of each want to travel",
    )
    collective: str = option(
        "sharded",
        "`sharded` (every rank averages a share), `star` (rank 0 averages all: Algorithm 1 "
        "of the paper), `gather` (every rank averages all) or, in DDP, `switch` (`aggregators` "
        "sum).",
        agreed=str,
    )
    aggregators: Sequence[str] | Aggregators = option(
        (),
        "addresses of programs `fewbits switch`, which add integers only; for the collective "
        "`switch`.",
        agreed=_open_fields,
    )
    allow_bias: bool = option(
        False,
        "lets `auto` choose `tiny` or `low-rank`, which are biased and have memories.",
        agreed=lambda allowed: str(bool(allowed)),
    )
    across: Any = option(
        None,
        "this rank's process group across nodes, or a mesh of one dimension: one rank of every "
        "node. Inside a node values are then summed uncompressed, and each unit crosses the links "
        "between nodes once for a node, not once for a rank.",
        agreed=lambda given: "nothing" if given is None else "a group",
    )

    on_failure: str = option(
        "raise",
        "what the others do if a rank is lost: `raise`, or `continue` without it, which needs "
        "`meeting` and repeats the step's exchange among those that are left.",
        agreed=str,
    )
    meeting: Any = option(
        None,
        "`fewbits.ddp.MeetingPlace(store)`: where ranks meet that are lost and come again, for "
        "`on_failure='continue'`.",
        free="every process has its own connection to the store",
    )

    inside: str | Operator | None = option(
        None,
        "with replicas of shards (HSDP): an unbiased operator for the way to the shards, where "
        "values otherwise go uncompressed.",
        agreed=str,
    )
    gather: str | None = option(
        None,
        "`bfloat16` gathers float32 parameters rounded to 16 bits; shards and computing stay in "
        "float32.",
        agreed=str,
    )

    def __post_init__(self) -> None:
        if self.gather not in (None, "bfloat16"):
            raise SpecError(f"gather must be 'bfloat16' or None, got {self.gather!r}")
        if self.collective not in (*COLLECTIVES, REDUCE_SCATTER):
            known = ", ".join(COLLECTIVES)
            raise SpecError(f"collective must be {known}, got {self.collective!r}")
        if self.across is not None and self.collective not in ("sharded", REDUCE_SCATTER):
            raise SpecError(
                f"across= has a collective of its own: leave collective={self.collective!r} out"
            )
        self._check_failure()
        if self.nonfinite not in get_args(NonFinite):
            raise SpecError(f"nonfinite must be propagate, skip or raise, got {self.nonfinite!r}")
        if not isinstance(self.timeout, int | float) or not 0 < self.timeout < math.inf:
            raise SpecError(f"timeout must be a positive number of seconds, got {self.timeout!r}")
        if self.device is not None and not _is_device(self.device):
            raise SpecError(f"device must be cpu, cuda or interpreted, got {self.device!r}")
        if self.device is not None and self.staged:
            raise SpecError("staged=True goes through the host: leave device out")
        if not isinstance(self.threads, int) or self.threads < 1:
            raise SpecError(f"threads must be a positive whole number, got {self.threads!r}")

    def _check_failure(self) -> None:
        if self.on_failure not in ("raise", "continue"):
            raise SpecError(f"on_failure must be raise or continue, got {self.on_failure!r}")
        if (self.on_failure == "continue") != (self.meeting is not None):
            raise SpecError(
                "on_failure='continue' and meeting=fewbits.ddp.MeetingPlace(store) go together: "
                "ranks that survive another one meet in a store"
            )

    @classmethod
    def of(cls, given: ScatterOptions | ShardOptions | MeanOptions | GradientOptions) -> Self:
        """The options that a user gave."""
        if given.get("collective") == REDUCE_SCATTER:
            raise SpecError(f"{REDUCE_SCATTER} is what fewbits.fsdp does: leave collective out")
        return cls(**given)

    def agreed(self, *, defaults: bool = False) -> dict[str, str]:
        """The text of each option on which ranks must agree, or with `defaults` of its default.

        An option that the routing describes is not among them.
        """
        found: dict[str, str] = {}
        for each in fields(self):
            told, value = each.metadata["agreed"], each.default
            if told in (None, routed) or (defaults and value is MISSING):
                continue
            text = told(value if defaults else getattr(self, each.name))
            if isinstance(text, str):
                found[each.name] = text
            else:
                found |= {f"{each.name}.{name}": part for name, part in text.items()}
        return found


def takes(names: type, declared: type[Options] = Options) -> Callable[[_F], _F]:
    """Show the `**options` of a function in `help()`, and refuse others in one line.

    `names` is the dictionary of its options, `declared` has their defaults and meanings. Old names
    of options still work in this release, with a warning at the line that uses them.
    """
    has = names.__annotations__.keys()
    options = [each for each in fields(declared) if each.name in has]

    def decorate(function: _F) -> _F:
        shown = _signature(function, options)

        @wraps(function)
        def checked(*given: Any, **named: Any) -> Any:
            return function(*given, **_renamed(function.__qualname__, shown, named))

        checked.__signature__ = shown  # type: ignore[attr-defined]
        checked.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{_described(options)}"
        return cast(_F, checked)

    return decorate


def _signature(function: Callable[..., Any], options: Sequence[Field[Any]]) -> inspect.Signature:
    own = inspect.signature(function)
    fixed = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
    named = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=each.type,
        )
        for each in options
    ]
    return own.replace(parameters=[*fixed, *named])


def _described(options: Sequence[Field[Any]]) -> str:
    lines = [f"`{each.name}`: {each.metadata['help']}" for each in options]
    return "\n".join(
        textwrap.fill(line, 96, initial_indent="- ", subsequent_indent="  ") for line in lines
    )


def _renamed(
    called: str, shown: inspect.Signature, named: Mapping[str, object]
) -> dict[str, object]:
    """The arguments by their present names; `TypeError` for unknown ones."""
    found: dict[str, object] = {}
    for name, value in named.items():
        present = _RENAMED.get(name, name)
        if present not in shown.parameters:
            known = ", ".join(shown.parameters)
            raise TypeError(f"{called}() has no option {name!r}: it has {known}")
        if present in found or (present != name and present in named):
            raise TypeError(f"{called}() got both {name!r} and {present!r}, which is its new name")
        if present != name:
            warn_user(f"{name}= is called {present}= now", DeprecationWarning)
        found[present] = value
    return found
