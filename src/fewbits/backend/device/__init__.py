"""The backend of a device's memory: Triton kernels, the same bits as the host's.

Imported only when memory of a device appears. Nothing waits for the device unless it must: `run`
with `counts` leaves even what it met there.
"""

import sys
from typing import Any

from fewbits.backend.device.memory import of_tensor as of_tensor
from fewbits.backend.device.memory import put as put
from fewbits.backend.device.memory import tensor_of as tensor_of
from fewbits.backend.device.memory import torch_device as torch_device
from fewbits.backend.device.memory import uploaded as uploaded
from fewbits.backend.device.memory import zeros as zeros
from fewbits.backend.device.registry import refusal as refusal
from fewbits.backend.device.running import run as run
from fewbits.backend.device.running import run_row as run_row
from fewbits.backend.device.sealing import clear_if as clear_if
from fewbits.backend.device.sealing import commit as commit
from fewbits.backend.device.sealing import crc32c as crc32c
from fewbits.backend.device.sealing import fill as fill
from fewbits.backend.device.sealing import judge as judge
from fewbits.backend.device.sealing import judge_boxes as judge_boxes
from fewbits.backend.device.sealing import seal as seal
from fewbits.backend.device.sealing import seal_boxes as seal_boxes


def at(device: str) -> Any:
    """The backend, if it can run kernels on memory of the device."""
    torch_device(device)
    return sys.modules[__name__]
