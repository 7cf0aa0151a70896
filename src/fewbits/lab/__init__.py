"""The papers' tables and figures, computed anew: `fewbits lab`.

One file in `lab/experiments` for each. It holds what is printed, as data, with the reason where
ours departs; a pure function from `Settings` to rows; and a function that draws them. `store` keeps
results, so that a finished one is not computed again, and `page` shows them all on one page.
"""

from fewbits.lab.experiment import Experiment, Settings
from fewbits.lab.index import EXPERIMENTS, find

__all__ = ["EXPERIMENTS", "Experiment", "Settings", "find"]
