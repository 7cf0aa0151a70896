"""Names for an operator with its feedback that were measured to train well together."""

from dataclasses import dataclass

from fewbits.errors import SpecError

AUTO = "auto"
"""Not a preset: tries several operators and goes on with the fastest."""

EVERYDAY = ("bfloat16", "natural", "natural:coder=rans")
"""What `auto` tries beside plain all-reduce and `fewbits plan` advises, the least lossy first.

Whole trainings were measured with these.
"""

LOW_RANK = "low-rank"
"""The name of a preset, and of a stage between ranks."""

SPARSE_LOCO = "sparse-loco"
"""The name of a preset for ranks that train alone for many steps."""

SLOW_LINK = "two-bit"
"""The preset that both consider too; coding takes longer, so only slow links leave it a chance."""


@dataclass(frozen=True, slots=True)
class Preset:
    """The operator of both directions and the memory that it needs, if it needs one."""

    operator: str
    feedback: str | None
    summary: str


PRESETS = {
    "tiny": Preset(
        "top-k:fraction=0.01|natural",
        "ef14",
        "the fewest bytes at which every model tried kept the accuracy of plain training",
    ),
    LOW_RANK: Preset(
        "low-rank:rank=8|sparse-dithering",
        "ef14",
        "fewer bytes still, for matrices: thin factors of them; other tensors as with tiny",
    ),
    SPARSE_LOCO: Preset(
        "top-k:fraction=0.03|sparse-dithering:nu=0.2,scale=least-squares",
        "ef14:decay=0.95",
        "for LocalSGD: the largest changes of each unit, at about two bits, and errors that fade",
    ),
    "one-bit": Preset(
        "trellis:nu=1.65,rounding=subtractive",
        None,
        "about one bit a value, unbiased: for averaging over many ranks or clients",
    ),
    "two-bit": Preset(
        "trellis:nu=0.32,rounding=subtractive",
        None,
        "about two bits a value, unbiased: for averaging on slow links",
    ),
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


def advised() -> dict[str, str]:
    """The specs of what `fewbits plan` advises, with the name that a user gives each."""
    return {spec: spec for spec in EVERYDAY} | {PRESETS[SLOW_LINK].operator: SLOW_LINK}


def is_low_rank(spec: object) -> bool:
    """Whether a spec begins with the stage `low-rank`, or is the preset."""
    return isinstance(spec, str) and spec.partition("|")[0].partition(":")[0].strip() == LOW_RANK


def refuse_name(name: str, spec: str = "") -> None:
    """Raise `SpecError` for the name of a preset, or of `auto`, where an operator is needed.

    `spec` is the whole text in which it stands.
    """
    if name == AUTO:
        raise SpecError(f"{name!r} measures a training run and is no operator: name one")
    if name == LOW_RANK:
        where = "" if is_low_rank(spec or name) else "stands first in a spec, "
        raise SpecError(
            f"{name!r} {where}makes factors of what all ranks send and is no operator of one "
            f"array: pass {PRESETS[name].operator!r} as the uplink of fewbits.ddp.attach"
        )
    if name in PRESETS:
        own = PRESETS[name]
        needs = f", which in training needs feedback={own.feedback!r}" if own.feedback else ""
        raise SpecError(
            f"{name!r} is a preset of attach and `fewbits train`, no operator: write "
            f"{own.operator!r}{needs}"
        )


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
