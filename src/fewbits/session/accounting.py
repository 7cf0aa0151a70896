"""Counts what a session has sent, spent and skipped on this rank, for its report."""

from dataclasses import asdict
from typing import Any

from fewbits.collectives.progress import RankProgress
from fewbits.session.choosing import Chooser
from fewbits.session.jobs import Job


class Accounting:
    """Counts since the start. `skipped` is true if the last step was dropped."""

    def __init__(self, progress: RankProgress, chooser: Chooser, collective: str) -> None:
        self.skipped = False
        self._progress, self._chooser, self._collective = progress, chooser, collective
        self._plain_bytes = 0
        self._steps = self._nonfinite_steps = self._skipped_steps = 0

    def add(self, job: Job, ranks: int) -> None:
        """Count a job that was reduced."""
        self._plain_bytes += self._chooser.reducer.plain_bytes(job, ranks)

    def end_step(self) -> None:
        """Count a step, and find out whether it is skipped."""
        progress = self._progress
        self._nonfinite_steps += progress.saw_nonfinite
        self.skipped = progress.saw_nonfinite and progress.nonfinite == "skip"
        self._skipped_steps += self.skipped
        self._steps += 1

    def figures(self, ranks: int) -> dict[str, Any]:
        """The fields of a report."""
        reducer, spent = self._chooser.reducer, asdict(self._progress.spent)
        del spent["nonfinite"]  # the report has the steps in which there were any
        routing, feedback = reducer.routing, reducer.feedback
        exact = routing.exact()
        uplink, downlink = reducer.specs
        return spent | {
            "uplink": uplink,
            "downlink": downlink,
            "collective": self._collective,
            "ranks": ranks,
            "steps": self._steps,
            "plain_bytes": self._plain_bytes,
            "elements": routing.elements(),
            "compressed_elements": routing.elements() - sum(exact.values()),
            "exact": exact,
            "nonfinite_steps": self._nonfinite_steps,
            "skipped_steps": self._skipped_steps,
            "feedback": feedback.method.spec if feedback else None,
            "memory_bytes": feedback.store.nbytes if feedback else 0,
            "decision": self._chooser.decision,
            "trying": self._chooser.trying,
        }
