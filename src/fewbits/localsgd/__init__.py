"""LocalSGD and DiLoCo: ranks train alone for some steps, then exchange their changes.

```python
import fewbits.localsgd

outer = fewbits.localsgd.attach(net, "natural:coder=rans", local_steps=32, outer="nesterov")
```
"""

from fewbits.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError.of("fewbits.localsgd needs torch", "torch") from error

from fewbits.localsgd.entry import attach
from fewbits.localsgd.islands import Islands
from fewbits.localsgd.local import LocalSGD
from fewbits.localsgd.outer import Nesterov, Outer, Sgd
from fewbits.localsgd.report import LocalReport

__all__ = ["Islands", "LocalReport", "LocalSGD", "Nesterov", "Outer", "Sgd", "attach"]
