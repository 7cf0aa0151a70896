"""The planner's forecast for a setting, from its measurements."""

from collections.abc import Mapping
from typing import Any

from fewbits.theory import cost
from fewbits.theory.cost import Codec, Link, TrainingJob
from fewbits.train import references


def step_seconds(inputs: Mapping[str, Any], job: TrainingJob) -> dict[str, float]:
    """Seconds of a step by the model of `fewbits plan`, for plain all-reduce and every codec."""
    link = Link(**inputs["link"])
    plain = {references.PLAIN_DDP: cost.step_time(job, link).total_seconds}
    return plain | {
        name: cost.step_time(job, link, Codec(**own), cost.sharded).total_seconds
        for name, own in inputs["codecs"].items()
    }
