"""Shows the training studies: curves, findings and claims."""

from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.nc_training.run import compute
from fewbits_lab.training import curves, plan, verdicts
from fewbits_lab.training.plan import TrainingTask
from fewbits_lab.training.rows import TrainingRow

_ABOUT = (
    "Four ranks as threads of one process, with the real routing, collective and messages; the "
    "same start and batches for all operators of a seed. Vectors such as biases and norms go "
    "exact, all else is compressed. Learning rates, epochs and subsets were fixed before the "
    "runs of a model, after short trials with another seed. Rates are those of plain training, "
    "but 0.4 times that for rand-k, as in the paper; they fall linearly to 0. "
    "top-k is biased and has error feedback in both directions (ef14); the other operators are "
    "unbiased and have none. No augmentation. ± is the 95 % interval of Student's law over paired "
    "seeds. Bytes are counted, those of plain training are a ring all-reduce's; computing and "
    "coding are measured processor time, and seconds on a link of 1 Gbit/s with 50 µs of latency "
    "are modelled from them, nothing overlapping."
)


def experiment(task: TrainingTask, name: str, title: str, about: str) -> Experiment[TrainingRow]:
    """One model's experiment."""
    size = (
        f"{task.epochs} epochs of {task.samples:,} training samples, {task.tested:,} test samples; "
        "far fewer with --quick."
    )
    return Experiment(
        name=f"nc-training-{name}",
        title=title,
        about=f"{about} {size} {_ABOUT}",
        row=TrainingRow,
        compute=compute(task),
        draw=curves.draw,
        findings=verdicts.findings,
        claims=verdicts.claims,
        is_complete=lambda rows: any(row.ran for row in rows),
    )


NC_TRAINING_MNIST = experiment(
    plan.MNIST, "mnist", "Training a CNN on MNIST",
    "Three convolutions, momentum 0.9; without --data 10 epochs of scikit-learn's digits.",
)  # fmt: skip
NC_TRAINING_RESNET20 = experiment(
    plan.RESNET20, "resnet20", "Training ResNet-20 on CIFAR-10 (JPEG copy)",
    "CIFAR-10 (JPEG copy): its images went through JPEG once more. The paper's ResNet-20 with "
    "batch norm of each rank's share, momentum 0.9; the paper trains for 64,000 steps. In as "
    "few as here its rate of 0.1 may be too large, and rand-k's lower one a help. Five seeds "
    "of plain training and natural were planned; when runs of the first seed had been seen, "
    "this was cut to three for lack of time.",
)  # fmt: skip
NC_TRAINING_ALEXNET = experiment(
    plan.ALEXNET, "alexnet", "Training an AlexNet-like model on CIFAR-10 (JPEG copy)",
    "CIFAR-10 (JPEG copy): its images went through JPEG once more. AlexNet's layers with 1.1 M "
    "parameters, where the paper's has 62.5 M; momentum 0.9.",
)  # fmt: skip
NC_TRAINING_GPT = experiment(
    plan.GPT, "gpt", "Training a small GPT on tiny-shakespeare",
    "Characters, four layers of width 128, AdamW; not among the paper's models.",
)  # fmt: skip
