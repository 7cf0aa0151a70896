"""Compressed gradients for DistributedDataParallel, in one line.

One rank, to show the calls; with more of them `report()` counts bytes, too.

>>> import torch, torch.distributed as dist, fewbits.ddp
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256))
>>> compression = fewbits.ddp.attach(model, "natural:coder=rans")
>>> model(torch.ones(4, 256)).sum().backward()
>>> compression.report().steps
1
>>> compression.close()
>>> dist.destroy_process_group()
"""

from fewbits.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError.of("fewbits.ddp needs torch", "torch") from error

from fewbits.ddp.compression import Compression, attach, hook
from fewbits.ddp.meeting import MeetingPlace
from fewbits.session import Report, StepReport
from fewbits.switch.job import Aggregators

__all__ = ["Aggregators", "Compression", "MeetingPlace", "Report", "StepReport", "attach", "hook"]
