"""Compressed gradients for DistributedDataParallel, in one line.

```python
model = DistributedDataParallel(net)
compression = fewbits.ddp.attach(model, "natural")
```
"""

from fewbits.ddp.compression import Compression, attach, hook
from fewbits.ddp.report import Report

__all__ = ["Compression", "Report", "attach", "hook"]
