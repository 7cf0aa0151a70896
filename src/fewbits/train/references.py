"""The references that fewbits is compared with: plain DDP and torch's own communication hooks.

They do not count their bytes, so the numbers here come from formulas: an all-reduce over a ring of
$n$ ranks sends $2 (n-1) / n$ times the buffer from every rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fewbits.errors import SpecError

PLAIN_DDP = "none"
FP16 = "fp16-hook"
POWERSGD = "powersgd"
PLAIN_STEPS = 2  # PowerSGD starts after them: DDP arranges its buckets anew in the first step

Shapes = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes that every rank sends in a step, by formula."""

    bytes_per_step: float
    compressed_elements: int


def is_reference(spec: str) -> bool:
    """Whether the spec names plain DDP or a hook of torch's; malformed ones raise `SpecError`."""
    name, _, _ = spec.partition(":")
    if name == POWERSGD:
        rank_of(spec)
        return True
    return spec in (PLAIN_DDP, FP16)


def rank_of(spec: str) -> int:
    _, colon, text = spec.partition(":")
    if not colon:
        return 4
    key, _, value = text.partition("=")
    if key.strip() != "rank" or not value.strip().isdecimal() or int(value) < 1:
        raise SpecError(f"expected powersgd:rank=N with N at least 1, got {spec!r}")
    return int(value)


def plain_bytes(elements: int, workers: int) -> float:
    """Bytes that every rank sends in an fp32 all-reduce."""
    return 4.0 * elements * 2 * (workers - 1) / workers


def estimate(spec: str, shapes: Shapes, workers: int) -> Estimate:
    """Bytes that a reference sends in a step after its warm-up."""
    elements = sum(prod(shape) for shape in shapes)
    plain = plain_bytes(elements, workers)
    if spec == PLAIN_DDP:
        return Estimate(plain, 0)
    if spec == FP16:
        return Estimate(plain / 2, elements)
    factors = [_factors(shape, rank_of(spec)) for shape in shapes]
    sent = sum(prod(shape) if f is None else f for shape, f in zip(shapes, factors, strict=True))
    compressed = sum(prod(shape) for shape, f in zip(shapes, factors, strict=True) if f is not None)
    return Estimate(plain * sent / elements, compressed)


def _factors(shape: tuple[int, ...], rank: int) -> int | None:
    """Elements of the two factors; `None` if PowerSGD sends the tensor uncompressed."""
    rows, columns = shape[0], prod(shape[1:])
    rank = min(rows, columns, rank)
    sent = (rows + columns) * rank
    # The hook compresses where it at least halves the tensor (its min_compression_rate).
    return sent if 2 * sent < rows * columns else None
