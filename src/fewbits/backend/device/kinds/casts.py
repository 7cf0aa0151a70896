"""Rows of casts, and of values that travel unchanged."""

from fewbits.backend.device.kernels.casts import OTHER_VALUE, cast_values
from fewbits.backend.device.launches import Launch, RowGroup, launch_blocks
from fewbits.backend.kernel import Kernel
from fewbits.reference.formats import BY_CODE, FLOAT64, Format

OWN_REASONS = {OTHER_VALUE: "section 'values' holds a value that {} cannot have written"}


def refusal(kernel: Kernel, format: Format) -> str | None:
    if FLOAT64 in (format, BY_CODE[kernel.option]):
        return "float64 values: use float32"
    return None


def launches(group: RowGroup) -> list[Launch]:
    values, section = group.format, BY_CODE[group.kernel.option]
    read = group.direction != "encode"
    source, target = (section, values) if read else (values, section)
    constants = {
        "FROM": source.code,
        "TO": target.code,
        "READ": read,
        "ADD": group.direction == "accumulate",
        "CHECKED": group.checked and group.direction == "decode" and values != section,
        "BLOCK": group.block,
        "ALIGNED": group.is_aligned(1),
        "RARE": True,
    }
    return launch_blocks(cast_values, group.numbers, group.counts, group.block, constants)


def refused(status: int, kernel: Kernel) -> str:
    """Why a section was refused, for a reason of this kind's own."""
    return OWN_REASONS[status].format(BY_CODE[kernel.option].name)
