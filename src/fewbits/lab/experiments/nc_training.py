"""Training with and without compression, as in the paper's experiments, on a smaller scale."""

from collections.abc import Callable

from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.training import curves, plan, verdicts
from fewbits.lab.training.plan import Task
from fewbits.lab.training.rows import Row, not_run, of_runs
from fewbits.train.extras import check_installed

_NOT_TRIED = {
    "ResNet-20": (("ResNet-50", "ImageNet", "150 GB of images and weeks on two cores"),),
}


def compute(task: Task) -> Callable[[Settings, Tick], list[Row]]:
    """How a task's rows are made."""

    def rows(settings: Settings, tick: Tick) -> list[Row]:
        """All runs, or a row that says why there are none."""
        own, source = chosen(task, settings)
        found = [not_run(*case) for case in _NOT_TRIED.get(task.model, ())]
        if source is None:
            why = f"it needs --data DIR with a folder {task.folder}"
            return [not_run(task.model, task.data, why), *found]
        check_installed("torch")
        from fewbits.lab.training import pool

        jobs = plan.jobs(own.quick() if settings.quick else own, source, settings.seed)
        return of_runs(jobs, pool.points(jobs, settings.parts, tick)) + found

    return rows


def chosen(task: Task, settings: Settings) -> tuple[Task, str | None]:
    """The task and its data; digits take the place of MNIST where that is not there."""
    source = plan.folder_of(task, settings.data)
    if source is None and task is plan.MNIST:
        return plan.DIGITS, plan.DIGITS.folder
    return task, source


_ABOUT = (
    "Four ranks as threads of one process, with the real plan, scheme and messages; the same start "
    "and batches for all operators of a seed. Vectors such as biases and norms go exact, all else "
    "is compressed. Learning rates, epochs and subsets were fixed before the runs of a model, "
    "after short trials with another seed. Rates are those of plain training, but 0.4 times that "
    "for rand-k, as in the paper; they fall linearly to 0. "
    "top-k is biased and has error feedback in both directions (ef14); the other operators are "
    "unbiased and have none. No augmentation. ± is the 95 % interval of Student's law over paired "
    "seeds. Bytes are counted, those of plain training are a ring all-reduce's; computing and "
    "coding are measured processor time, and seconds on a link of 1 Gbit/s with 50 µs of latency "
    "are modelled from them, nothing overlapping."
)


def experiment(task: Task, name: str, title: str, about: str) -> Experiment[Row]:
    """One model's experiment."""
    size = (
        f"{task.epochs} epochs of {task.samples:,} training samples, {task.tested:,} test samples; "
        "far fewer with --quick."
    )
    return Experiment(
        name=f"nc-training-{name}",
        title=title,
        about=f"{about} {size} {_ABOUT}",
        row=Row,
        compute=compute(task),
        draw=curves.draw,
        findings=verdicts.findings,
        claims=verdicts.claims,
        is_complete=lambda rows: any(row.ran for row in rows),
    )


EXPERIMENTS = (
    experiment(
        plan.MNIST, "mnist", "Training a CNN on MNIST",
        "Three convolutions, momentum 0.9; without --data 10 epochs of scikit-learn's digits.",
    ),
    experiment(
        plan.RESNET20, "resnet20", "Training ResNet-20 on CIFAR-10 (JPEG copy)",
        "CIFAR-10 (JPEG copy): its images went through JPEG once more. The paper's ResNet-20 with "
        "batch norm of each rank's share, momentum 0.9; the paper trains for 64,000 steps. In as "
        "few as here its rate of 0.1 may be too large, and rand-k's lower one a help. Five seeds "
        "of plain training and natural were planned; when runs of the first seed had been seen, "
        "this was cut to three for lack of time.",
    ),
    experiment(
        plan.ALEXNET, "alexnet", "Training an AlexNet-like model on CIFAR-10 (JPEG copy)",
        "CIFAR-10 (JPEG copy): its images went through JPEG once more. AlexNet's layers with 1.1 M "
        "parameters, where the paper's has 62.5 M; momentum 0.9.",
    ),
    experiment(
        plan.GPT, "gpt", "Training a small GPT on tiny-shakespeare",
        "Characters, four layers of width 128, AdamW; not among the paper's models.",
    ),
)  # fmt: skip
