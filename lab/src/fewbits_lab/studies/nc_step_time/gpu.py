"""The model of the paper's machines: eight workers with a GPU each, on links of a given speed."""

from typing import NamedTuple

from fewbits.theory import cost
from fewbits.theory.cost import Codec, Link, LinkTraffic, TrainingJob
from fewbits_lab.studies.scale import model as scale

WORKERS = 8
PEAK, SHARE = 9.3e12, 0.25  # operations a second that a P100 promises, and the part assumed of them
_PER_VALUE = 6  # operations for each multiplication of a forward pass: three passes, two each


class PaperModel(NamedTuple):
    """What a step of one worker takes: values sent, multiplications an image, images."""

    parameters: int
    multiplications: float
    batch: int

    @property
    def compute_seconds(self) -> float:
        """On the assumed GPU."""
        return _PER_VALUE * self.multiplications * self.batch / (SHARE * PEAK)


class ModelledStep(NamedTuple):
    """Modelled: seconds in all, those of computing among them, and bytes that a worker sends."""

    seconds: float
    compute_seconds: float
    sent_bytes: float


def switched(values: int, _workers: int) -> LinkTraffic:
    """Through an aggregator in the network: every value once up and once down, at any number."""
    return LinkTraffic(values, values, values, 2)


SCHEMES = {  # bits of a value, and who adds
    "none": (32.0, cost.plain),
    "natural": (9.0, cost.sharded),
    "natural, switch": (8.0, switched),
}


def step(model: PaperModel, operator: str, rate: float) -> ModelledStep:
    """By `theory.cost`, nothing overlapping, with codec speeds recorded on one processor thread."""
    bits, scheme = SCHEMES[operator]
    codec = Codec(bits) if operator == "none" else scale.codec("natural", bits)
    job = TrainingJob(model.parameters, WORKERS, model.compute_seconds)
    found = cost.step_time(job, Link(rate, scale.LATENCY), codec, scheme)
    sent = scheme(model.parameters, WORKERS).sent * bits / 8
    return ModelledStep(found.total_seconds, model.compute_seconds, sent)


def compute_for(model: PaperModel, operator: str, rate: float, reduction: float) -> float:
    """Computing seconds with which the step would be shorter by this share; may be negative."""
    plain, own = step(model, "none", rate), step(model, operator, rate)
    return (plain.seconds - own.seconds) / reduction - (plain.seconds - plain.compute_seconds)
