"""The figures of one step on one rank, and how far its encoding is from a few of its values."""

import math
from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from fewbits.core.operator import Operator
from fewbits.core.vector import Vector
from fewbits.operators.identity import Identity
from fewbits.reference.formats import FLOAT32
from fewbits.rng import Rng
from fewbits.session.jobs import Job
from fewbits.session.routing import ModelParameter, Routing

SAMPLED = 4096  # values that are copied in each step

_Place = tuple[int, str, int, Operator]  # size and name of a parameter, its first value, operator


class StepSample:
    """The first values of the step's largest parameter that is compressed, before the exchange.

    Copying them takes microseconds. They are encoded only when somebody asks for the error.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self._size, self._values = 0, np.empty(0, np.float32)
        self._operator: Operator = Identity()
        self._error: float | None = None

    def look(self, job: Job, routing: Routing) -> None:
        """Take values of a job, if it has a larger compressed parameter than those before."""
        if (place := _place(job, routing)) is not None and place[0] > self._size:
            self._size, self.name, start, self._operator = place
            self._values = job.values.sample(min(SAMPLED, self._size), start)

    def relative_error(self, step: int) -> float | None:
        """‖C(x) − x‖ / ‖x‖ on the sample; None without one, or if it is zero or not finite."""
        if self._error is None and self.name is not None:
            self._error = _relative_error(self._operator, self._values, step)
        return None if self._error is None or math.isnan(self._error) else self._error


def _place(job: Job, routing: Routing) -> _Place | None:
    """The largest parameter of a job that is compressed."""
    found, start = None, 0
    for each in job.parameters:
        size = each.size
        if size > (found[0] if found else 0):
            operator = _operator(routing, each)
            if operator != Identity():
                found = size, each.name, start, operator
        start += size
    return found


def _operator(routing: Routing, parameter: ModelParameter) -> Operator:
    """What encodes a parameter's own values; none does if it travels as factors."""
    return Identity() if routing.is_factored(parameter) else routing.operators(parameter)[0]


def _relative_error(operator: Operator, values: npt.NDArray[np.float32], step: int) -> float:
    vector = Vector(values.view(np.uint32), FLOAT32)
    decoded = np.empty_like(values)
    sections = operator.layout(vector.count, FLOAT32)
    into = tuple(np.empty(section.size, np.uint8) for section in sections)
    written = operator.encode(vector, Rng.from_seed(step), into)
    parts = tuple(part[:own] for part, own in zip(into, written.sizes, strict=True))
    operator.decode(parts, Vector(decoded.view(np.uint32), FLOAT32))
    wide = values.astype(np.float64)
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(wide))
        error = float(np.linalg.norm(decoded - wide))
    return error / norm if norm > 0 and math.isfinite(norm) else math.nan


@dataclass(frozen=True, slots=True)
class StepReport:
    """Figures of one step of one rank.

    `sent_bytes` counts payloads and headers; `plain_bytes` is what an uncompressed exchange would
    have sent. `codec_seconds` went into encoding, adding up and decoding. `wire_seconds` are those
    in which the exchange waited for the link or for other ranks; both overlap with the backward
    pass. `waiting_seconds` is what the program itself waited after its last gradient.
    """

    step: int = -1
    uplink: str = "none"
    downlink: str = "none"
    sent_bytes: int = 0
    plain_bytes: int = 0
    codec_seconds: float = 0.0
    wire_seconds: float = 0.0
    waiting_seconds: float = 0.0
    skipped: bool = False
    sample: StepSample = field(default_factory=StepSample, repr=False, compare=False)

    @property
    def ratio(self) -> float:
        """How many times fewer bytes than without compression."""
        return self.plain_bytes / self.sent_bytes if self.sent_bytes else 1.0

    @property
    def relative_error(self) -> float | None:
        """‖C(x) − x‖ / ‖x‖ of the uplink's operator C on a sample x of this rank's own gradient.

        The sample is encoded when this is asked for, and the result is kept. None if nothing was
        compressed or kept: in plain steps of `auto`, with FSDP, and on a device. Parameters that
        travel as factors are not sampled.
        """
        return self.sample.relative_error(self.step)

    @property
    def sampled(self) -> str | None:
        """The parameter of which the sample was taken."""
        return self.sample.name

    def as_dict(self) -> dict[str, float | str | bool | None]:
        """All figures by name, for a logger or JSON."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        del own["sample"]
        error = {"relative_error": self.relative_error, "sampled": self.sampled}
        return own | {"ratio": self.ratio} | error
