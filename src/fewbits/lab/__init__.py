"""The laboratory report: `fewbits lab`.

One file in `lab/experiments` for each table or figure that is computed anew. It holds what is
printed, as data, with the reason where ours departs; a pure function from `Settings` to rows; and
functions that draw them, find sentences in them and decide claims. `lab/recorded` has what is shown
of results that need root, data or hours. `store` keeps rows as JSON, so that a finished result is
not computed again; `exhibits` are both kinds seen alike; `sections` says where each is shown;
`page` shows them, and `folder` writes everything that is made of the JSON files.
"""

from fewbits.lab.experiment import Experiment, Settings
from fewbits.lab.index import EXPERIMENTS, find

__all__ = ["EXPERIMENTS", "Experiment", "Settings", "find"]
