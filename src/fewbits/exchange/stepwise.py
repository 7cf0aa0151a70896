"""Exchanges that take place in every step of the optimizer."""

from fewbits.errors import SpecError
from fewbits.exchange.exchange import Exchange


class Stepwise(Exchange):
    """One whose steps a user counts as those of the training."""

    @property
    def step(self) -> int:
        """How many steps were reduced; set it on every rank when a run is resumed."""
        return self.progress.step

    @step.setter
    def step(self, step: int) -> None:
        if not isinstance(step, int) or step < 0:
            raise SpecError(f"a step is a whole number from 0 on, got {step!r}")
        self.progress.step = step
