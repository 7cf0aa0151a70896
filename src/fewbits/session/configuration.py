"""What all ranks of a session must have in common, by name, and what a state remembers of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from fewbits.session.adapter import AdapterParts
from fewbits.session.choosing import Chooser
from fewbits.session.options import Options, listed
from fewbits.switch.job import SWITCH
from fewbits.theory.cost import PIECE

_NOT_SAVED = {"unit", "piece", "policy", "allow_bias", "candidates", "across", "on_failure"}
"""What a resumed run may have otherwise, or what a state checks apart."""
_OF_SUMS = {"aggregators.top", "aggregators.chunk"}
"""What a resumed run must have in common of the aggregators, which may be others."""


@dataclass(frozen=True, slots=True)
class RankConfiguration:
    """The configuration of one rank."""

    chooser: Chooser
    options: Options
    adapter: AdapterParts

    def agreed(self) -> dict[str, str]:
        """Everything that ranks must agree on; options at their default are left out.

        So ranks whose versions differ in an option that nobody uses still agree.
        """
        chooser, routing = self.chooser, self.chooser.saved.routing
        defaults = self.options.agreed(defaults=True)
        options = self.options.agreed().items()
        given = [f"{each.name} {each.shape} {each.is_trained}" for each in routing.model.given]
        return {
            "uplink": chooser.agreed[0],
            "downlink": chooser.agreed[1],
            "candidates": listed(chooser.candidates),
            "feedback": str(routing.feedback),
            "policy": self._choices(),
            **{name: text for name, text in options if defaults.get(name) != text},
            "unit": str(routing.unit),
            "piece": str(PIECE),
            "model": f"{len(given)} tensors, {short_digest(given)}",
            **({} if routing.nodes is None else {"nodes": str(routing.nodes)}),
            **self.adapter.agreed,
        }

    def of_state(self, version: int) -> str:
        """What a state of this version says of the run to which it belongs."""
        if version == 1:
            return self._first_words()
        return " ".join(
            f"{name}={text}"
            for name, text in self.agreed().items()
            if name not in _NOT_SAVED and (name in _OF_SUMS or "aggregators." not in name)
        )

    def decisions(self) -> list[str]:
        """What the policy has decided, a line for each tensor and candidate.

        A policy may be a function, of which only the decisions can be compared.
        """
        return [f"{name} by {'/'.join(specs)}" for name, specs in self._decided()]

    def _decided(self) -> list[tuple[str, list[str]]]:
        return [
            (each.name, [*reducer.routing.told(each)])
            for reducer in self.chooser.reducers
            for each in self.chooser.saved.routing.model.trained()
        ]

    def _choices(self) -> str:
        trained = self.chooser.saved.routing.model.trained()
        last = self.chooser.reducers[-1].routing
        exact = sum(last.is_exact(each) for each in trained)
        # These lines are in the headers of all ranks and in states, through their digest.
        lines = [f"{name} {' '.join(specs)}" for name, specs in self._decided()]
        return f"{exact} of {len(trained)} tensors exact, {short_digest(lines)}"

    def _first_words(self) -> str:
        """The configuration as version 1 had it; its states hold this text and its digest."""
        uplink, downlink = self.chooser.agreed
        routing, options, told = self.chooser.saved.routing, self.options, self.options.agreed()
        switch = f"top={told['aggregators.top']} chunk={told['aggregators.chunk']} "
        return (
            f"{self.adapter.first_words}worker={uplink} master={downlink} "
            f"scheme={options.collective} feedback={routing.feedback} "
            f"{switch if options.collective == SWITCH else ''}"
            f"seed={options.seed} nonfinite={options.nonfinite} "
            f"names={short_digest([parameter.name for parameter in routing.model.given])}"
        )


def short_digest(lines: Sequence[str]) -> str:
    return blake2b("\n".join(lines).encode(), digest_size=4).hexdigest()
