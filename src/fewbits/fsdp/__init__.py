"""Compressed gradients for FSDP2, in one line.

```python
import fewbits.fsdp

fully_shard(model)
compression = fewbits.fsdp.attach(model, "natural")
```
"""

from fewbits.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError("fewbits.fsdp needs torch: pip install 'fewbits[torch]'") from error

from fewbits.fsdp.compression import Compression
from fewbits.fsdp.entry import attach
from fewbits.fsdp.report import ShardReport

__all__ = ["Compression", "ShardReport", "attach"]
