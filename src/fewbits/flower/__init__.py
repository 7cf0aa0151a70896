"""Compresses the messages of Flower with two lines; strategies need no change.

```python
app = ClientApp(mods=[fewbits.flower.client_mod("natural")])
strategy.start(grid=fewbits.flower.CompressedGrid(grid, "natural"), initial_arrays=arrays)
```
"""

from fewbits.errors import MissingExtraError

try:
    import flwr  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError.of("fewbits.flower needs flwr", "flower") from error

from fewbits.flower.client.mod import client_mod
from fewbits.flower.server.grid import CompressedGrid
from fewbits.flower.server.nodes import GridReport
from fewbits.flower.server.ticket import Rejection
from fewbits.flower.server.traffic import ArrayTraffic

__all__ = ["ArrayTraffic", "CompressedGrid", "GridReport", "Rejection", "client_mod"]
