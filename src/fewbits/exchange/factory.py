"""Makes reducers from what a user names: an operator, a preset, or the candidates of `auto`."""

from dataclasses import dataclass

from fewbits import presets
from fewbits.core.operator import Operator
from fewbits.exchange import defaults
from fewbits.exchange.auto import NONE
from fewbits.exchange.plain import Plain
from fewbits.exchange.plan import Names, Planner
from fewbits.exchange.reducer import Compressed, Reducer
from fewbits.exchange.switching import Switching
from fewbits.feedback import Feedback, feedback
from fewbits.feedback.store import Store
from fewbits.operators.identity import Identity
from fewbits.policy import Policy
from fewbits.registry import operator
from fewbits.rng import Rng
from fewbits.schemes.correction import Loop
from fewbits.schemes.payload import CHUNK
from fewbits.schemes.reduction import Progress


@dataclass(frozen=True, slots=True)
class Factory:
    """What all reducers of one model share."""

    scheme: str
    threads: int
    seed: int
    policy: Policy
    names: Names
    progress: Progress
    switching: Switching | None = None

    def compressed(
        self,
        worker: str | Operator,
        master: str | Operator | None = None,
        method: str | Feedback | None = None,
    ) -> Compressed:
        """With these operators; `SpecError` for what the method cannot correct."""
        preset = presets.expand(worker, master=master, feedback=method)
        if preset is not None:
            worker, method = preset.operator, preset.feedback
        there = operator(worker)
        loop = None if method is None else Loop(feedback(method), Store())
        back = defaults.master(there, master, corrected=loop is not None)
        if loop is not None:
            for each in (there, back):
                loop.method.rule(each, CHUNK)
        planner = Planner(there, back, self.policy, self.names, loop is not None)
        if self.switching is not None:
            self.switching.check(there, back, loop)
        rng = Rng.from_seed(self.seed)
        own = self.scheme, self.threads, rng, self.switching
        return Compressed(planner, loop, self.progress, *own)

    def candidates(self, *, allow_bias: bool) -> dict[str, Reducer]:
        """What `auto` chooses from, those that lose least first."""
        plain = Planner(Identity(), Identity(), self.policy, self.names)
        specs = ["bfloat16", "natural", "natural:coder=rans"] + ["tiny"] * allow_bias
        tried: dict[str, Reducer] = {spec: self.compressed(spec) for spec in specs}
        return {NONE: Plain(plain, self.progress)} | tried
