"""The kinds that a device runs, and what it says of others."""

from types import ModuleType

from fewbits.backend import library
from fewbits.backend.device.kinds import casts, combine, dithering, natural, sums, top_k
from fewbits.backend.device.launches import Launch, RowGroup
from fewbits.backend.kernel import Kernel, Kind
from fewbits.errors import DecodeError, SpecError
from fewbits.reference.formats import Format

DEVICE_KINDS: dict[Kind, ModuleType] = {
    Kind.NATURAL: natural,
    Kind.CAST: casts,
    Kind.CLEAR: sums,
    Kind.DIVIDE: sums,
    Kind.COMBINE: combine,
    Kind.DITHERING: dithering,
}
_INSTEAD = "run it on the host, with staged=True"
# What comes nearest among the operators that a device runs.
_NEAREST = {
    Kind.TRELLIS: "trellis: use standard-dithering",
    Kind.GRID: "sparse-dithering: use standard-dithering",
    Kind.SPHERICAL: "spherical: use standard-dithering",
    Kind.SIGN: "sign: use standard-dithering:levels=1",
}


def refusal(kernel: Kernel, format: Format, instead: str = _INSTEAD) -> str | None:
    """Why a device cannot run such rows, in one line that names what to use; None if it can.

    `instead` says how they can run on the host.
    """
    if top_k.is_ranged(kernel.before):
        return f"a device has no kernel for places of wire version 1: {instead}"
    if kernel.before and not top_k.is_alone(kernel.before):
        names = "|".join(own.kind.name.lower().replace("_", "-") for own in kernel.before)
        return f"a device has no kernel for {names} before another operator: {instead}"
    kind = DEVICE_KINDS.get(kernel.kind)
    if kernel.kind in _NEAREST:
        return f"a device has no kernel for {_NEAREST[kernel.kind]}, or {instead}"
    if kind is None:
        name = kernel.kind.name.lower().replace("_", "-")
        return f"a device has no kernel for {name}: {instead}"
    reason: str | None = kind.refusal(kernel, format)
    return None if reason is None else f"a device has no kernel for {reason}, or {instead}"


def launches(group: RowGroup) -> list[Launch]:
    """What runs a group of rows; `SpecError` if a device cannot."""
    kernel = group.kernel
    reason = refusal(kernel, group.format)
    if reason is not None:
        raise SpecError(reason)
    if kernel.before:
        return top_k.launches(group, launches)
    found: list[Launch] = DEVICE_KINDS[kernel.kind].launches(group)
    return found


def refused(status: int, kernel: Kernel) -> DecodeError:
    """The error of a row that a kernel has refused for the reason `status`."""
    own = getattr(DEVICE_KINDS[kernel.kind], "OWN_REASONS", {})
    if status in own:
        return DecodeError(DEVICE_KINDS[kernel.kind].refused(status, kernel))
    return library.refused(status)
