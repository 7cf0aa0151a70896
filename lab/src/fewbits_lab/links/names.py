"""Contenders' names; whatever is not plain DDP or torch's is a spec of ours."""

from collections.abc import Sequence

from fewbits import presets, registry
from fewbits.errors import SpecError
from fewbits.train import references

COMPUTE, _AUTO = "compute", "auto"
SWITCHED = "@switch"  # after a spec: on an aggregator in the middle of the network
QUANTIZATION = "quantization-hook"
LINK_PLAIN, HOOK, CHAINED, OURS, LINK_SILENT = (
    "plain",
    "torch",
    "torch, one bucket",
    "fewbits",
    "silent",
)
CASTS = (references.FP16, "bfloat16", "float16")
DEFAULT = (
    references.PLAIN_DDP,
    references.FP16,
    "bfloat16",
    "float16",
    "powersgd:rank=1",
    "powersgd:rank=4",
    QUANTIZATION,
    "natural",
    "natural:coder=rans",
    "tiny",
    _AUTO,
    COMPUTE,
)


def kind(name: str) -> str:
    """The kind of a contender; a malformed rank of PowerSGD raises `SpecError`."""
    if name == COMPUTE:
        return LINK_SILENT
    if name == QUANTIZATION:
        return CHAINED
    if not references.is_reference(name):
        return OURS
    if name == references.PLAIN_DDP:
        return LINK_PLAIN
    return HOOK if name == references.FP16 else CHAINED


def has_codec(name: str) -> bool:
    """Whether it always uses the same operator of ours."""
    return kind(name) == OURS and name != _AUTO


def is_switched(name: str) -> bool:
    """Whether a contender needs an aggregator."""
    return name.endswith(SWITCHED)


def chosen(names: Sequence[str]) -> list[str]:
    """The names in order, each once, and what the others are measured by: plain and compute.

    A spec that is no operator's raises `SpecError` here, before any rank is started.
    """
    found = list(dict.fromkeys((references.PLAIN_DDP, *names, COMPUTE)))
    for name in found:
        if not name.strip():
            raise SpecError("a contender needs a name")
        if has_codec(name) and name not in presets.PRESETS:
            registry.operator(name.removesuffix(SWITCHED))
    return sorted(found, key=lambda name: name == COMPUTE)
