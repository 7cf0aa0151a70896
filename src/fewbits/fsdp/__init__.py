"""Compressed gradients for FSDP2, in one line.

```python
import fewbits.fsdp

fully_shard(model)
compression = fewbits.fsdp.attach(model, "natural")
```
"""

from fewbits.errors import MissingExtraError

try:
    import torch
except ModuleNotFoundError as error:
    raise MissingExtraError.of("fewbits.fsdp needs torch", "torch") from error

try:
    from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        "fewbits.fsdp needs a torch whose fully_shard takes collectives of one's own, tested with "
        f"2.13; this is {torch.__version__}"
    ) from error

from fewbits.fsdp.compression import ShardedCompression, ShardReport, attach
from fewbits.fsdp.saving import DistributedState
from fewbits.session import warn_user

__all__ = ["DistributedState", "ShardReport", "ShardedCompression", "attach"]


def __getattr__(name: str) -> object:
    if name != "Compression":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_user("fewbits.fsdp.Compression is called ShardedCompression now", DeprecationWarning)
    return ShardedCompression
