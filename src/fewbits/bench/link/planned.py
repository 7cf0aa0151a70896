"""The planner's word on a setting, from what was measured in it."""

from collections.abc import Mapping
from typing import Any

from fewbits.theory import cost
from fewbits.theory.cost import Codec, Job, Link
from fewbits.train import references


def step_seconds(inputs: Mapping[str, Any], job: Job) -> dict[str, float]:
    """By the model of `fewbits plan`: plain all-reduce, and every contender with a codec."""
    link = Link(**inputs["link"])
    plain = {references.NONE: cost.step_time(job, link).total_seconds}
    return plain | {
        name: cost.step_time(job, link, Codec(**own), cost.sharded).total_seconds
        for name, own in inputs["codecs"].items()
    }
