"""Shows the long training studies: curves, findings and claims."""

from collections.abc import Sequence

from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.nc_long.run import compute
from fewbits_lab.training import curves, paired, plan, verdicts
from fewbits_lab.training.plan import TrainingTask
from fewbits_lab.training.rows import TrainingRow

_ABOUT = (
    "All of the training set and all of the test set, {:,} epochs of {:,} steps with batches of "
    "{}, some 2,000 steps in all; a short look with --quick. Four ranks as threads of one process, "
    "with the real routing, collective and messages, which give DistributedDataParallel's bits; "
    "the same start and batches for all operators of a seed. Vectors such as biases and norms go "
    "exact, all else is compressed both ways, without error feedback. The rate was fixed before "
    "the runs, without trials, and falls linearly to 0. ± is the 95 % interval of Student's law "
    "over paired seeds. Both ditherings at equal bits were planned as well, and cut for lack of "
    "time before any of their runs had ended. A recorded run shared its machine with other work."
)


def findings(rows: Sequence[TrainingRow]) -> list[str]:
    """What the other training studies say, and what the runs took."""
    said = verdicts.findings(rows)
    ends = [row for name in dict.fromkeys(row.operator for row in rows if row.ran)
            for row in paired.last(rows, name).values()]  # fmt: skip
    spent = sum(
        plan.RANKS * ((row.compute_seconds or 0) + (row.codec_seconds or 0)) for row in ends
    )
    if ends:
        said.append(f"{len(ends)} runs took {spent / 3600:.1f} hours of a processor core.")
    return said


def experiment(task: TrainingTask, name: str, title: str, about: str) -> Experiment[TrainingRow]:
    """One model's experiment."""
    steps = task.samples // task.batch
    return Experiment(
        name=f"nc-long-{name}",
        title=title,
        about=f"{about} {_ABOUT.format(task.epochs, steps, task.batch)}",
        row=TrainingRow,
        compute=compute(task),
        draw=curves.draw,
        findings=findings,
        claims=verdicts.claims,
        is_complete=lambda rows: any(row.ran for row in rows),
    )


NC_LONG_MNIST = experiment(
    plan.LONG_MNIST, "mnist", "Training a CNN on all of MNIST", "Three convolutions, momentum 0.9."
)
NC_LONG_ALEXNET = experiment(
    plan.LONG_ALEXNET, "alexnet", "Training an AlexNet-like model on all of CIFAR-10 (JPEG copy)",
    "CIFAR-10 (JPEG copy): its images went through JPEG once more. AlexNet's layers with 5.8 M "
    "parameters, nine tenths of them in linear layers, as AlexNet has most of its own there; "
    "momentum 0.9.",
)  # fmt: skip
NC_LONG_RESNET20 = experiment(
    plan.LONG_RESNET20, "resnet20", "Training ResNet-20 on all of CIFAR-10 (JPEG copy)",
    "CIFAR-10 (JPEG copy): its images went through JPEG once more. The paper's ResNet-20 with "
    "batch norm of each rank's share, momentum 0.9.",
)  # fmt: skip
NC_LONG_GPT = experiment(
    plan.LONG_GPT, "gpt", "Training a small GPT on all of tiny-shakespeare",
    "Characters, four layers of width 128, AdamW; not among the paper's models.",
)  # fmt: skip
