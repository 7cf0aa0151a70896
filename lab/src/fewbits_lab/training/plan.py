"""The models, settings and operators of the training studies, fixed before any run."""

from dataclasses import dataclass, replace
from pathlib import Path

from fewbits.errors import SpecError

RANKS = 4
TRAINING_PLAIN, TRAINING_NATURAL = "none", "natural"
TRAINING_LINK = 1e9  # bits a second, of every rank in each direction
TRAINING_LATENCY = 50e-6  # seconds, one way
SHORT = 3  # seeds of most contenders
LONG = 5  # of plain training and of natural, whose difference is the paper's headline
_QUICK_SEEDS = 2


@dataclass(frozen=True, slots=True)
class TrainingContender:
    """An operator for each direction; with feedback both directions have a memory.

    `slower` lowers the learning rate, as the paper does for sparsification: 0.04 in place of 0.1.
    """

    name: str
    worker: str
    master: str
    feedback: str | None = None
    slower: float = 1.0
    seeds: int = SHORT


NATURAL_DITHERING, STANDARD_DITHERING = "natural dithering", "standard dithering, equal bits"
FINE_DITHERING = "standard dithering, 2⁷ levels"
RANDOM, RANDOM_NATURAL = "rand-k", "rand-k|natural"
TOP, TOP_NATURAL = "top-k", "top-k|natural"

TRAINING_CONTENDERS = (
    TrainingContender(TRAINING_PLAIN, "none", "none", seeds=LONG),
    TrainingContender(TRAINING_NATURAL, "natural", "natural", seeds=LONG),
    TrainingContender(NATURAL_DITHERING, "natural-dithering:p=2,levels=8", "natural"),
    TrainingContender(STANDARD_DITHERING, "standard-dithering:p=2,levels=8", "natural"),
    TrainingContender(RANDOM_NATURAL, "rand-k:fraction=0.1|natural", "natural", slower=0.4),
    TrainingContender(
        TOP_NATURAL, "top-k:fraction=0.1|natural", "top-k:fraction=0.1|natural", "ef14"
    ),
)
PARTNERS = (  # what the paper puts beside dithering and sparsification: no natural compression
    TrainingContender(FINE_DITHERING, "standard-dithering:p=2,levels=128", "identity"),
    TrainingContender(RANDOM, "rand-k:fraction=0.1|identity", "identity", slower=0.4),
    TrainingContender(TOP, "top-k:fraction=0.1|identity", "top-k:fraction=0.1|identity", "ef14"),
)


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """A model and its data, the same for every contender; the rate falls linearly to zero.

    `samples` and `tested` are how many of both sets are taken, the same ones for all.
    """

    model: str
    folder: str  # of `--data`
    data: str
    optimizer: str
    rate: float
    batch: int
    epochs: int
    samples: int
    tested: int
    glance: int  # steps of an epoch where it must be quick
    contenders: tuple[TrainingContender, ...] = TRAINING_CONTENDERS
    decay: float = 0.0

    def quick(self) -> "TrainingTask":
        """A first look at the same: a few steps, two seeds, no partners."""
        own = (each for each in self.contenders if each not in PARTNERS)
        return replace(
            self,
            epochs=2,
            samples=min(self.samples, self.glance * self.batch),
            tested=min(self.tested, 200),
            contenders=tuple(replace(each, seeds=_QUICK_SEEDS) for each in own),
        )


MNIST = TrainingTask("CNN", "mnist", "MNIST", "sgd", rate=0.05, batch=64, epochs=4, samples=2560,
             tested=2500, glance=8, contenders=TRAINING_CONTENDERS + PARTNERS)  # fmt: skip
DIGITS = replace(MNIST, folder="digits", data="digits", epochs=10, samples=1408,
                 tested=360, glance=22)  # fmt: skip
_BRIEF = tuple(
    replace(own, seeds=SHORT) for own in TRAINING_CONTENDERS
)  # where a run takes longest
_CIFAR = "CIFAR-10 (JPEG copy)"
RESNET20 = TrainingTask("ResNet-20", "cifar10", _CIFAR, "sgd", rate=0.1, batch=64, epochs=3,
                samples=2048, tested=2000, glance=4, contenders=_BRIEF, decay=1e-4)  # fmt: skip
ALEXNET = TrainingTask("AlexNet-like", "cifar10", _CIFAR, "sgd", rate=0.02, batch=64, epochs=3,
               samples=2560, tested=2000, glance=8, decay=1e-4)  # fmt: skip
GPT = TrainingTask("GPT", "tinyshakespeare", "tiny-shakespeare", "adam", rate=2e-3, batch=32,
           epochs=2, samples=960, tested=400, glance=4, contenders=_BRIEF)  # fmt: skip

_DECIDING = tuple(
    replace(own, seeds=LONG)
    for own in TRAINING_CONTENDERS
    if own.name in (TRAINING_PLAIN, TRAINING_NATURAL)
)
# Two epochs of all data, about 2,000 steps: smaller batches on CIFAR-10, where samples are fewer.
LONG_MNIST = replace(MNIST, epochs=2, samples=60000, tested=10000, contenders=_DECIDING)
LONG_ALEXNET = replace(ALEXNET, model="AlexNet-like, 6 M", batch=48, epochs=2, samples=50000,
                       tested=10000, contenders=_DECIDING)  # fmt: skip
LONG_RESNET20 = replace(RESNET20, rate=0.05, batch=48, epochs=2, samples=50000, tested=10000,
                        contenders=_DECIDING)  # fmt: skip
LONG_GPT = replace(GPT, epochs=4, samples=15000, tested=1700, contenders=_DECIDING)


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One run; `source` is a folder, or `digits`."""

    task: TrainingTask
    contender: TrainingContender
    seed: int
    source: str

    @property
    def key(self) -> str:
        """The key that tells runs of an experiment apart."""
        return f"{self.task.model}, {self.task.data}, {self.contender.name}, seed {self.seed}"


def jobs(task: TrainingTask, source: str, seed: int) -> list[TrainingRun]:
    """All runs; seeds outermost, so that all contenders grow together."""
    most = max(own.seeds for own in task.contenders)
    return [
        TrainingRun(task, own, seed + number, source)
        for number in range(most)
        for own in task.contenders
        if number < own.seeds
    ]


def folder_of(task: TrainingTask, data: str | None) -> str | None:
    """The task's folder in `--data`; None where it is not there."""
    if data is None:
        return None
    if not Path(data).is_dir():
        raise SpecError(f"--data must be a folder of data sets, got {data!r}")
    found = Path(data) / task.folder
    return str(found) if found.is_dir() else None
