"""The end of a step, once all ranks are known to have got this far."""

import time

from fewbits.collectives.progress import RankProgress
from fewbits.errors import EncodeError
from fewbits.session.accounting import Accounting
from fewbits.session.adapter import SessionComm
from fewbits.session.choosing import Chooser
from fewbits.session.jobs import Outcome


class StepEnding:
    """Keeps the outcomes of a step, and judges them."""

    def __init__(self, progress: RankProgress, chooser: Chooser, accounting: Accounting) -> None:
        self.outcomes: list[Outcome] = []
        self._progress, self._chooser, self._accounting = progress, chooser, accounting

    def conclude(self, since: float, comm: SessionComm) -> None:
        """End a step that `progress` counts already, and of which the means are in place.

        A rank that lacks only the last headers may do so, if another one has ended the step.
        """
        progress, reducer, accounting = self._progress, self._chooser.reducer, self._accounting
        if (reducer.feedback or progress.nonfinite != "propagate") and not progress.saw_nonfinite:
            self._judge()
        if reducer.feedback is not None:
            reducer.feedback.store.end_step(well=not progress.saw_nonfinite)
        accounting.end_step(time.perf_counter() - since if since else None)
        if accounting.skipped:  # a hook cannot skip the optimizer's step: zero the gradients
            for outcome in self.outcomes:
                outcome.clear()
        progress.saw_nonfinite = False
        self.outcomes.clear()
        self._chooser.end_step(since, progress, comm)

    def _judge(self) -> None:
        """Check the means, because finite gradients may overflow when summed or rounded to 16 bits.

        The means are the same on all ranks, so all ranks decide alike without asking each other.
        """
        progress = self._progress
        with progress.spent.codec():
            progress.saw_nonfinite = not all(each.is_finite() for each in self.outcomes)
        if progress.saw_nonfinite and progress.nonfinite == "raise":
            raise EncodeError(f"the mean gradient of step {progress.step - 1} is NaN or infinite")
