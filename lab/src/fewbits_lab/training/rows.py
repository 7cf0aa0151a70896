"""A row of a training experiment, made from what a run measured."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fewbits.theory import cost
from fewbits_lab.training import plan
from fewbits_lab.training.plan import TrainingContender, TrainingRun

if TYPE_CHECKING:
    from fewbits_lab.training.loop import CurvePoint

RAN, DIVERGED = "ran", "diverged"


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One run after one epoch; of what was not run only the names, and in `status` why.

    Bytes and seconds are since the start and of one rank. Bytes are counted, but those of plain
    training are a ring all-reduce's. Compute and codec seconds are processor time, measured;
    modelled seconds are those of a link of 1 Gbit/s.
    """

    model: str
    data: str
    operator: str
    status: str
    spec: str = ""
    parameters: int | None = None
    learning_rate: float | None = None
    seed: int | None = None
    epoch: int | None = None
    train_loss: float | None = None
    test_loss: float | None = None
    accuracy: float | None = None
    sent_bytes: int | None = None
    compute_seconds: float | None = None
    codec_seconds: float | None = None
    modelled_seconds: float | None = None

    @property
    def ran(self) -> bool:
        """Whether there are figures."""
        return self.status in (RAN, DIVERGED)


def of_runs(
    jobs: Sequence[TrainingRun], points: Sequence[Sequence["CurvePoint"]]
) -> list[TrainingRow]:
    """All rows; a step's computing is the median of all runs, which compute the same."""
    step = statistics.median(own[-1].compute_seconds / own[-1].steps for own in points)
    return [_row(job, point, step) for job, run in zip(jobs, points, strict=True) for point in run]


def not_run(model: str, data: str, why: str) -> TrainingRow:
    """A row that says so."""
    return TrainingRow(model, data, "all", f"not run: {why}")


def _row(job: TrainingRun, point: "CurvePoint", step: float) -> TrainingRow:
    contender = job.contender
    return TrainingRow(
        model=job.task.model,
        data=job.task.data,
        operator=contender.name,
        status=RAN if point.finite else DIVERGED,
        spec=spec(contender),
        parameters=point.parameters,
        learning_rate=round(job.task.rate * contender.slower, 6),
        seed=job.seed,
        epoch=point.epoch,
        train_loss=point.train_loss,
        test_loss=point.test_loss,
        accuracy=round(point.accuracy, 5),
        sent_bytes=point.sent_bytes,
        compute_seconds=point.compute_seconds,
        codec_seconds=point.codec_seconds,
        modelled_seconds=round(_modelled(contender, point, step), 3),
    )


def spec(contender: TrainingContender) -> str:
    """Worker's and master's operator in one text."""
    both = f"{contender.worker} > {contender.master}"
    return both + (f" + {contender.feedback}" if contender.feedback else "")


def _modelled(contender: TrainingContender, point: "CurvePoint", step: float) -> float:
    """Computing and coding as measured, sending by `theory.cost` with the busiest rank's bytes."""
    job = cost.TrainingJob(point.parameters, plan.RANKS, step)
    link = cost.Link(plan.TRAINING_LINK, plan.TRAINING_LATENCY)
    if contender.name == plan.TRAINING_PLAIN:
        return point.steps * cost.step_time(job, link).total_seconds
    sent = cost.sharded(point.parameters, plan.RANKS).sent
    codec = cost.Codec(8 * point.busiest_bytes / point.steps / sent)
    own = cost.step_time(job, link, codec, cost.sharded)
    return point.steps * own.total_seconds + point.codec_seconds
