"""Real training steps of the paper's models between network namespaces, on a link of known speed.

This file is also the program of a rank: `linked.py CASES --rank WORK`.
"""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import fewbits.ddp
from fewbits.policy import Default
from fewbits.train import references
from fewbits_lab.links import contenders, names
from fewbits_lab.links.network import Network
from fewbits_lab.links.program import LINK_PATIENCE, interface_bytes, join, launched, leave, tell
from fewbits_lab.links.setting import ShapedLink
from fewbits_lab.training import models

_NETS: dict[str, tuple[Callable[[], nn.Module], int]] = {  # and the side of an image
    "ResNet-110": (lambda: models.PaperResNet(110), 32),
    "AlexNet": (models.AlexNet, 227),
}


@dataclass(frozen=True, slots=True)
class LinkedCase:
    """A model with some operators: a step of each to warm up, then `rounds` in turn."""

    model: str
    operators: list[str]
    batch: int  # of a rank
    rounds: int


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """Seconds of each step, until the last rank has ended it; bytes of rank 0's link in a step."""

    model: str
    operator: str
    parameters: int
    seconds: list[float]
    sent_bytes: int
    codec_seconds: float


def measure(cases: Sequence[LinkedCase], ranks: int, rate: float) -> Iterator[MeasuredSteps]:
    """Every operator of one case after another, on the same links."""
    text = json.dumps([asdict(case) for case in cases])
    with Network(ranks, ShapedLink(rate)) as network:
        for row in launched(network, __file__, text):
            yield MeasuredSteps(**row)


def main() -> None:
    """The program of a rank."""
    cases, _, work = sys.argv[1:]
    number, _ = join(work)
    for case in json.loads(cases):
        for found in _measured(LinkedCase(**case), number):
            tell(number, asdict(found))
        gc.collect()  # the last models' gradients and buckets go before the next one's come
    leave()


def _measured(case: LinkedCase, number: int) -> list[MeasuredSteps]:
    runners = [Runner(case, operator, number) for operator in case.operators]
    for turn in range(case.rounds):
        # Every other round runs backwards, so that nobody always follows the same one.
        for runner in runners if turn % 2 == 0 else reversed(runners):
            runner.turn()
    return [runner.end(case.model) for runner in runners]


class Runner:
    """One operator's model of its own on this rank, and what its steps took."""

    def __init__(self, case: LinkedCase, operator: str, number: int) -> None:
        torch.manual_seed(0)
        build, side = _NETS[case.model]
        self._operator = operator
        self._model, self._compression = _wrapped(build(), operator)
        self._step = contenders.step(self._model, (case.batch, 3, side, side), number)
        self._step()
        self._sent, self._seconds, self._coded = 0, list[float](), _codec(self._compression)

    def turn(self) -> None:
        """One step, begun by all ranks together."""
        dist.barrier()
        sent, began = interface_bytes(), time.perf_counter()
        self._step()
        slowest = torch.tensor([time.perf_counter() - began])
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        self._sent += interface_bytes() - sent
        self._seconds.append(round(slowest.item(), 4))

    def end(self, model: str) -> MeasuredSteps:
        """The seconds of all steps; the model is released."""
        steps, coded = len(self._seconds), _codec(self._compression) - self._coded
        if self._compression is not None:
            self._compression.close()
        return MeasuredSteps(
            model, self._operator, models.parameters(self._model), self._seconds,
            self._sent // steps, round(coded / steps, 5),
        )  # fmt: skip


def _wrapped(net: nn.Module, operator: str) -> tuple[DistributedDataParallel, Any]:
    """All ranks draw the same parameters; as in training here, only vectors go exact."""
    model = DistributedDataParallel(net, init_sync=False)
    if operator == names.COMPUTE:
        model.register_comm_hook(None, contenders.as_it_is)
    if operator in (references.PLAIN_DDP, names.COMPUTE):
        return model, None
    policy = Default(small=0)
    return model, fewbits.ddp.attach(model, operator, policy=policy, timeout=LINK_PATIENCE)


def _codec(compression: Any) -> float:
    return 0.0 if compression is None else float(compression.report().codec_seconds)


if __name__ == "__main__":
    main()
