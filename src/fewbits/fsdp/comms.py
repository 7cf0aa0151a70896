"""What FSDP calls in place of its own collectives."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

from fewbits.fsdp.shards import Group

if TYPE_CHECKING:
    from fewbits.fsdp.compression import Compression


class _InPlaceOf:
    """One group's collective; `plain` is what it takes the place of, and allocates as that does."""

    def __init__(self, compression: "Compression", group: Group, plain: Any) -> None:
        self._compression, self._group, self.plain = compression, group, plain

    def allocate(
        self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """Memory as FSDP's own."""
        allocated: torch.Tensor = self.plain.allocate(size, dtype=dtype, device=device)
        return allocated


class CompressedReduceScatter(_InPlaceOf, ReduceScatter):
    """Gradients of one group, compressed."""

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> None:
        """The row of this rank in the mean of all inputs; done when it returns."""
        self._compression.reduce_scatter(self._group, output_tensor, input_tensor, op)


class CheckedAllGather(_InPlaceOf, AllGather):
    """Parameters of one group as FSDP's own all-gather sends them, once all ranks agree on it."""

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        async_op: bool = False,
    ) -> dist.Work | None:
        """All ranks' inputs; a rank that is lost or elsewhere is an error with a type."""
        return self._compression.all_gather(
            self._group,
            output_tensor.nbytes - input_tensor.nbytes,
            lambda: self.plain(output_tensor, input_tensor, group, async_op),
        )
