"""Training on all of the data: plain and with natural compression both ways."""

from collections.abc import Callable

from fewbits.train.extras import check_installed
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.training import plan
from fewbits_lab.training.plan import TrainingTask
from fewbits_lab.training.rows import TrainingRow, not_run, of_runs


def compute(task: TrainingTask) -> Callable[[StudySettings, Tick], list[TrainingRow]]:
    """How a task's rows are made: every finished run is kept, so that hours can be interrupted."""

    def rows(settings: StudySettings, tick: Tick) -> list[TrainingRow]:
        """All runs, or a row that says why there are none."""
        source = plan.folder_of(task, settings.data)
        if source is None:
            why = f"it needs --data DIR with a folder {task.folder}"
            return [not_run(task.model, task.data, why)]
        check_installed("torch")
        from fewbits_lab.training import pool

        jobs = plan.jobs(task.quick() if settings.quick else task, source, settings.seed)
        return of_runs(jobs, pool.points(jobs, settings.parts, tick))

    return rows
