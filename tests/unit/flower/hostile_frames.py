"""Frames that are right in structure and checksum, and whose header has absurd parameters."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import fewbits
from fewbits import registry
from fewbits.core import parameters
from fewbits.core.parameters import Field
from fewbits.wire import frame as wire
from fewbits.wire.frame import Parameter, ParameterType, StageRecord

TINY, HUGE = 5e-324, 1.7976931348623157e308
ABSURD = {
    ParameterType.FLOAT: (
        TINY, -TINY, 2.2250738585072014e-308, 0.0, -0.0, -1.0, 1e-300, 1e300, HUGE, -HUGE,
        math.nan, math.inf, -math.inf,
    ),
    ParameterType.INTEGER: (-(2**63), -1, 0, 1, 2**31, 2**53 + 1, 2**63 - 1),
    ParameterType.CHOICE: (0, 1, 2, 127, 255),
}  # fmt: skip


def sealed(header: wire.Header, sections: tuple[np.ndarray, ...]) -> bytes:
    body = header.encode() + b"".join(part.tobytes() for part in sections) + bytes(4)
    data = np.frombuffer(body, np.uint8).copy()
    wire.seal(data)
    return data.tobytes()


def with_parameter(frame: bytes, stage: int, field: Field, value: float | int) -> bytes:
    """The frame with one parameter of one stage changed, and sealed again."""
    parsed = wire.parse(np.frombuffer(frame, np.uint8), 2**30)
    stages = list(parsed.header.stages)
    own = [one for one in stages[stage].parameters if one.number != field.number]
    own.append(Parameter(field.number, field.type, value))
    own.sort(key=lambda one: one.number)
    stages[stage] = StageRecord(stages[stage].code, tuple(own))
    return sealed(replace(parsed.header, stages=tuple(stages)), parsed.sections)


def absurd_frames(d: int) -> Iterator[tuple[str, bytes]]:
    """For every operator, every parameter and every absurd value: what it is, and the frame."""
    x = np.random.default_rng(0).standard_normal(d).astype(np.float32)
    found = registry.catalogue()
    for spec in registry.all_example_specs(d):
        frame = bytes(fewbits.compress(x, spec, seed=1))
        stages = wire.parse(np.frombuffer(frame, np.uint8), 2**30).header.stages
        for place, stage in enumerate(stages):
            cls = found.by_code.get(stage.code) or found.stage_codes[stage.code]
            for field in parameters.fields(cls):
                for value in ABSURD.get(field.type, ()):
                    name = f"{spec} with {cls.name}'s {field.name} = {value}"
                    yield name, with_parameter(frame, place, field, value)


def subtractive(d: int, nu: float) -> bytes:
    """Sparse dithering of which a division by zero is known, for a denormal nu."""
    cls = type(fewbits.operator("sparse-dithering"))
    (field,) = (one for one in parameters.fields(cls) if one.name == "nu")
    spec = "sparse-dithering:rounding=subtractive,nu=3"
    return with_parameter(
        bytes(fewbits.compress(np.zeros(d, np.float32), spec, seed=1)), 0, field, nu
    )
