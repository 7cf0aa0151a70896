"""Baselines: quantisers of other authors, built anew from their published formulas.

Each is a value that turns a vector into a message and a message into a vector. A message has codes,
scales and, where the decoder must redraw something, its key; the number of values is told apart and
not counted, which favours them by a few bytes against frames, whose headers count. They are for
comparing only: no header, no checksum, no defence against damaged messages.
"""

from fewbits_lab.baselines.baseline import Baseline, measure
from fewbits_lab.baselines.blocks import IntegerBlocks
from fewbits_lab.baselines.eden import Eden
from fewbits_lab.baselines.fp8 import Fp8

BASELINES: tuple[Baseline, ...] = (
    Eden(1),
    Eden(2),
    Eden(4),
    IntegerBlocks(4),
    IntegerBlocks(8),
    Fp8(),
)

__all__ = ["BASELINES", "Baseline", "Eden", "Fp8", "IntegerBlocks", "measure"]
