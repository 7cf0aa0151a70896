"""Names for an operator with its feedback that were measured to train well together."""

from dataclasses import dataclass

from fewbits.errors import SpecError

AUTO = "auto"
"""Not a preset: tries several operators and goes on with the fastest."""

EVERYDAY = ("bfloat16", "natural", "natural:coder=rans")
"""What `auto` tries beside plain all-reduce and `fewbits plan` advises, the least lossy first.

Whole trainings were measured with these.
"""


@dataclass(frozen=True, slots=True)
class Preset:
    """The operator of both directions and the memory that it needs."""

    operator: str
    feedback: str
    summary: str


PRESETS = {
    "tiny": Preset(
        "top-k:fraction=0.01|natural",
        "ef14",
        "the fewest bytes at which every model tried kept the accuracy of plain training",
    )
}


REFERENCES = {
    "none": "leave `attach` out",
    "fp16-hook": "write 'float16', or register torch's own hook: "
    "model.register_comm_hook(None, default_hooks.fp16_compress_hook)",
    "powersgd": "write model.register_comm_hook(PowerSGDState(None, matrix_approximation_rank={}, "
    "start_powerSGD_iter=2), powerSGD_hook), both from "
    "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook",
}
"""What `fewbits train` compares with and is none of our operators: what to write instead."""


def refuse_reference(spec: object) -> None:
    """Raise `SpecError` with the line to write for a name that only `fewbits train` knows."""
    name, _, rest = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if name in REFERENCES:
        rank = rest.partition("=")[2].strip() or "4"
        instead = REFERENCES[name].format(rank)
        raise SpecError(f"{spec!r} is a reference of `fewbits train`, no operator: {instead}")


def expand(worker: object, **others: object) -> Preset | None:
    """The preset of this name, or None."""
    preset = PRESETS.get(worker) if isinstance(worker, str) else None
    if preset is not None:
        refuse_others(str(worker), **others)
    return preset


def refuse_others(name: str, **others: object) -> None:
    """Raise `SpecError` if an option is given that the preset `name` chooses itself."""
    given = [other for other, value in others.items() if value is not None]
    if given:
        raise SpecError(
            f"{name!r} chooses {' and '.join(given)} itself: leave it out, or name an operator"
        )
