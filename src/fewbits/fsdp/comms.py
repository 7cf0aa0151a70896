"""The collectives that FSDP calls in place of its own."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

from fewbits.fsdp.shards import ShardGroup

if TYPE_CHECKING:
    from fewbits.fsdp.compression import ShardedCompression


class _InPlaceOf:
    """One group's collective; it replaces `plain` and allocates in the same way."""

    def __init__(self, compression: "ShardedCompression", group: ShardGroup, plain: Any) -> None:
        self._compression, self._group, self.plain = compression, group, plain

    def allocate(
        self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        allocated: torch.Tensor = self.plain.allocate(size, dtype=dtype, device=device)
        return allocated


class CompressedReduceScatter(_InPlaceOf, ReduceScatter):
    """Reduces and scatters the gradients of one group, compressed."""

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


class ReplicaHook:
    """Averages a shard over its replicas, after an all-reduce of FSDP that does nothing."""

    def __init__(self, compression: "ShardedCompression", group: ShardGroup) -> None:
        self._compression, self._group = compression, group

    def __call__(self, shard: torch.Tensor) -> None:
        self._compression.average(self._group, shard)


class CheckedAllGather(_InPlaceOf, AllGather):
    """Gathers the parameters of one group as FSDP does, once all ranks agree on it."""

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Gather all ranks' inputs; raises a typed error if a rank is lost or elsewhere."""
        narrow = self._compression.narrowed(input_tensor)
        if narrow is not None:  # nobody waits for the rounded values later than here
            wide, output_tensor = (
                output_tensor,
                output_tensor.new_empty(output_tensor.shape, dtype=narrow.dtype),
            )
            self._gathered(output_tensor, narrow, group, False)
            wide.copy_(output_tensor)
            return None
        return self._gathered(output_tensor, input_tensor, group, async_op)

    def _gathered(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        async_op: bool,
    ) -> dist.Work | None:
        def gather(seconds: float) -> dist.Work | None:
            if async_op or output_tensor.is_cuda:
                return self.plain(output_tensor, input_tensor, group, async_op)  # type: ignore[no-any-return]
            # The group's own time-out is the user's, by default half an hour.
            self.plain(output_tensor, input_tensor, group, True).wait(timedelta(seconds=seconds))
            return None

        bytes_ = output_tensor.nbytes - input_tensor.nbytes
        return self._compression.all_gather(self._group, bytes_, gather)
