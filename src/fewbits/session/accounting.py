"""Counts what a session has sent, spent and skipped on this rank, for its report."""

import logging
from dataclasses import asdict
from typing import Any

from fewbits.collectives.factored import exchange_of
from fewbits.collectives.gather import Gather
from fewbits.collectives.progress import RankProgress
from fewbits.session.choosing import Chooser
from fewbits.session.jobs import Job
from fewbits.session.steps import StepReport, StepSample

_LOG = logging.getLogger(__name__)


class Accounting:
    """Counts since the start. `skipped` is true if the last step was dropped.

    `lost_ranks` were lost while this one went on, and with them `lost_values` of memories.
    """

    def __init__(self, progress: RankProgress, chooser: Chooser, collective: str) -> None:
        self.skipped = False
        self._progress, self._chooser, self._collective = progress, chooser, collective
        self._plain_bytes = 0
        self.lost_ranks = self.lost_values = 0
        self._steps = self._nonfinite_steps = self._skipped_steps = 0
        self._sample, self._last = StepSample(), StepReport(sample=StepSample())
        self._before = self._totals()

    def add(self, job: Job, ranks: int) -> None:
        """Count a job that was reduced."""
        self._plain_bytes += self._chooser.reducer.plain_bytes(job, ranks)

    def watch(self, job: Job) -> None:
        """Keep a few values of a job before they become a mean."""
        reducer = self._chooser.reducer
        if not reducer.is_light:
            self._sample.look(job, reducer.routing)

    def last_step(self) -> StepReport:
        """Figures of the last step that has ended."""
        return self._last

    def end_step(self, waiting_seconds: float | None = None, *, later: int = 0) -> None:
        """Count a step, after which `later` ones have ended, and find out whether it is skipped."""
        progress = self._progress
        self._nonfinite_steps += progress.saw_nonfinite
        self.skipped = progress.saw_nonfinite and progress.nonfinite == "skip"
        self._skipped_steps += self.skipped
        self._steps += 1
        self._keep(progress.step - 1 - later, waiting_seconds)
        if self.skipped:
            _LOG.warning("step %d has NaN or infinite gradients: skipped", self._last.step)
        _LOG.debug("%s", self._last)

    def _totals(self) -> tuple[int, int, float, float]:
        spent = self._progress.spent
        sent = spent.payload_bytes + spent.header_bytes
        return sent, self._plain_bytes, spent.codec_seconds, spent.wire_seconds

    def _keep(self, step: int, waiting_seconds: float | None) -> None:
        """Make the figures of the step that ends now."""
        now, reducer = self._totals(), self._chooser.reducer
        sent, plain, codec, wire = (
            own - before for own, before in zip(now, self._before, strict=True)
        )
        sample, self._sample = self._sample, StepSample()
        self._before = now
        self._last = StepReport(
            step,
            *reducer.specs,
            int(sent),
            int(plain),
            codec,
            wire,
            codec + wire if waiting_seconds is None else waiting_seconds,
            self.skipped,
            sample,
        )

    def figures(self, ranks: int) -> dict[str, Any]:
        """The fields of a report."""
        reducer, spent = self._chooser.reducer, asdict(self._progress.spent)
        del spent["nonfinite"]  # the report has the steps in which there were any
        del spent["ranges"]
        routing, feedback = reducer.routing, reducer.feedback
        exact, factored = routing.exact(), routing.factored()
        one_hop = factored is not None and exchange_of(ranks, self._collective) is Gather
        uplink, downlink = reducer.specs
        return spent | {
            "uplink": uplink,
            "downlink": downlink,
            "collective": self._collective,
            "ranks": ranks,
            "nodes": 0 if routing.nodes is None else routing.nodes.count,
            "steps": self._steps,
            "plain_bytes": self._plain_bytes,
            "elements": routing.elements(),
            "compressed_elements": routing.elements() - sum(exact.values()),
            "exact": exact,
            "factored_elements": factored,
            "factors_in_one_hop": one_hop,
            "nonfinite_steps": self._nonfinite_steps,
            "skipped_steps": self._skipped_steps,
            "feedback": feedback.method.spec if feedback else None,
            "memory_bytes": feedback.store.nbytes if feedback else 0,
            "decision": self._chooser.decision,
            "trying": self._chooser.trying,
            "lost_ranks": self.lost_ranks,
            "lost_values": self.lost_values,
        }
