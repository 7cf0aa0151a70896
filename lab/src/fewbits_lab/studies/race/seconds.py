"""Seconds of a step of the race's network on a slow link, all contenders taking turns.

    sudo python -m fewbits_lab.studies.race.seconds [--rate 100e6]

How many steps it takes does not depend on the link (`run` counts them), so the time to a goal is
the product. This file is also the program of a rank: `seconds.py ROUNDS NAMES --rank WORK`.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import fewbits.ddp
from fewbits.cli.console import say
from fewbits_lab import runs
from fewbits_lab.links import contenders, tools
from fewbits_lab.links.network import Network
from fewbits_lab.links.program import LINK_PATIENCE, interface_bytes, join, launched, leave, tell
from fewbits_lab.links.setting import ShapedLink
from fewbits_lab.studies.race.run import RACE_CONTENDERS, RACE_WITH
from fewbits_lab.studies.time_to_accuracy.run import model

RACE_SECONDS = Path(__file__).with_name("result-seconds.json")
_RANKS, _SHARE, _SIDE, _WARM_UP = 4, 32, 28, 8  # samples of a rank, and the side of an image


class RaceRunner(NamedTuple):
    """A contender's model of its own, and what its steps took."""

    name: str
    step: Callable[[], None]
    seconds: list[float]
    sent: list[int]

    def turn(self) -> None:
        """One step, begun by all ranks together; the slowest rank ends it."""
        dist.barrier()
        sent, began = interface_bytes(), time.perf_counter()
        self.step()
        slowest = torch.tensor([time.perf_counter() - began])
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        self.seconds.append(round(slowest.item(), 5))
        self.sent.append(interface_bytes() - sent)


def main() -> None:
    """Measure a rate that the file does not have."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=float, default=100e6, metavar="BITS")
    parser.add_argument("--rounds", type=int, default=100, metavar="N")
    parser.add_argument("--only", nargs="+", default=list(RACE_CONTENDERS), metavar="NAME")
    options = parser.parse_args()
    tools.check_ready()
    if any(own["link_bits_per_second"] == options.rate for own in runs.read(RACE_SECONDS)):
        return
    about = {"ranks": _RANKS, "batch": _RANKS * _SHARE, "torch": torch.__version__}
    with Network(_RANKS, ShapedLink(options.rate)) as network:
        for row in launched(network, __file__, str(options.rounds), *options.only):
            kept = {"link_bits_per_second": options.rate} | row
            runs.add(RACE_SECONDS, kept, about, ("link_bits_per_second", "name"))
            say(f"{row['name']}: {sorted(row['seconds'])[len(row['seconds']) // 2]:.4f} s")


def built(name: str, number: int) -> RaceRunner:
    """A contender, whose steps have settled."""
    torch.manual_seed(0)
    spec, _, feedback = name.partition(RACE_WITH)
    if feedback:
        wrapped = DistributedDataParallel(model(), init_sync=False)
        fewbits.ddp.attach(wrapped, spec, feedback=feedback, timeout=LINK_PATIENCE)
    else:
        wrapped = contenders.wrap(model(), name, LINK_PATIENCE)[0]
    step = contenders.step(wrapped, (_SHARE, *_shape(wrapped.module)), number)
    for _ in range(_WARM_UP):
        step()
    return RaceRunner(name, step, [], [])


def _shape(net: nn.Module) -> tuple[int, ...]:
    """What the network takes: images with one channel."""
    first = next(net.parameters())
    assert first.dim() == 4, "the race's network begins with a convolution"
    return first.shape[1], _SIDE, _SIDE


def _rank(rounds: int, names: list[str], work: str) -> None:
    number, _ = join(work)
    warnings.simplefilter("ignore")  # who compares on purpose knows of bias
    every = [built(name, number) for name in names]
    for turn in range(rounds):
        # Every other round runs backwards, so that nobody always follows the same one.
        for own in every if turn % 2 == 0 else reversed(every):
            own.turn()
    for own in every:
        sent = sum(own.sent) // rounds
        tell(number, {"name": own.name, "seconds": own.seconds, "interface_bytes": sent})
    leave()


if __name__ == "__main__":
    if "--rank" in sys.argv:
        _rank(int(sys.argv[1]), sys.argv[2:-2], sys.argv[-1])
    else:
        main()
