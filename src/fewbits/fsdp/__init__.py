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

from fewbits.fsdp.compression import Compression
from fewbits.fsdp.entry import attach
from fewbits.fsdp.report import ShardReport

__all__ = ["Compression", "ShardReport", "attach"]
