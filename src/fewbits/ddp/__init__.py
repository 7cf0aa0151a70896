"""Compressed gradients for DistributedDataParallel, in one line.

```python
import fewbits.ddp

model = DistributedDataParallel(net)
compression = fewbits.ddp.attach(model, "natural")
```
"""

from fewbits.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError.of("fewbits.ddp needs torch", "torch") from error

from fewbits.ddp.compression import Compression, attach, hook
from fewbits.session import Report
from fewbits.switch.job import Aggregators

__all__ = ["Aggregators", "Compression", "Report", "attach", "hook"]
