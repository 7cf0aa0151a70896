"""Training with and without compression, as in the paper's experiments, on a smaller scale."""

from collections.abc import Callable

from fewbits.train.extras import check_installed
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.training import plan
from fewbits_lab.training.plan import TrainingTask
from fewbits_lab.training.rows import TrainingRow, not_run, of_runs

_NOT_TRIED = {
    "ResNet-20": (("ResNet-50", "ImageNet", "150 GB of images and weeks on two cores"),),
}


def compute(task: TrainingTask) -> Callable[[StudySettings, Tick], list[TrainingRow]]:
    """How a task's rows are made."""

    def rows(settings: StudySettings, tick: Tick) -> list[TrainingRow]:
        """All runs, or a row that says why there are none."""
        own, source = chosen(task, settings)
        found = [not_run(*case) for case in _NOT_TRIED.get(task.model, ())]
        if source is None:
            why = f"it needs --data DIR with a folder {task.folder}"
            return [not_run(task.model, task.data, why), *found]
        check_installed("torch")
        from fewbits_lab.training import pool

        jobs = plan.jobs(own.quick() if settings.quick else own, source, settings.seed)
        return of_runs(jobs, pool.points(jobs, settings.parts, tick)) + found

    return rows


def chosen(task: TrainingTask, settings: StudySettings) -> tuple[TrainingTask, str | None]:
    """The task and its data; digits take the place of MNIST where that is not there."""
    source = plan.folder_of(task, settings.data)
    if source is None and task is plan.MNIST:
        return plan.DIGITS, plan.DIGITS.folder
    return task, source
