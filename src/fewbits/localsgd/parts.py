"""What LocalSGD adds to its session."""

from collections.abc import Callable, Sequence

import torch.distributed as dist

from fewbits.attached import ranges
from fewbits.localsgd.inside import Inside
from fewbits.localsgd.standing import Standing
from fewbits.session import AdapterParts, ModelParameter, SessionComm

_NO_RESHARD = (
    "each rank of an island has a part of the state: resume with as many ranks and islands"
)


def adapter_parts(
    standing: Standing,
    given: Sequence[ModelParameter],
    first_words: str,
    device: str,
    inside: Inside | None,
    *,
    comes_and_goes: bool,
    settle: Callable[[], None],
) -> AdapterParts:
    """The parts of a session whose parameters and averaged buffers are `given`."""
    trained = [(each.name, each.shape) for each in given if each.is_trained]
    buffers = [(each.name, each.shape) for each in given if not each.is_trained]
    model = standing.shapes_digest([*trained, *buffers])
    agreed = {"vectors": model}
    if inside is not None:
        agreed["place"] = f"{inside.place} of {inside.width}"
    return AdapterParts(
        device=device,
        formats=[own.vector.name for own in standing.rounds],
        agreed=agreed,
        stream=() if inside is None else ("place", inside.place),
        no_reshard=None if inside is None else _NO_RESHARD,
        first_words=f"{first_words} model={model} ",
        arrays=standing.arrays,
        check=standing.check,
        take=standing.take,
        settle=settle,
        ranges=ranges,
        place=_in_world if inside is not None else _alone if comes_and_goes else _place,
    )


def _place(comm: SessionComm) -> tuple[int, int]:
    return comm.rank, comm.size


def _alone(_: SessionComm) -> tuple[int, int]:
    """Islands that come and go have no lasting numbers, and each saves what is common."""
    return 0, 1


def _in_world(_: SessionComm) -> tuple[int, int]:
    """Each rank of an island saves its own part."""
    return dist.get_rank(), dist.get_world_size()
