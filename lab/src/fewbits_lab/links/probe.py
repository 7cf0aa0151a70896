"""Measures the inputs of `fewbits plan`, the link and the codecs, beside the steps.

All ranks measure at once, because in a step all of them send and encode at once.
"""

import math
import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import registry
from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import largest
from fewbits.collectives.overlap import Overlap
from fewbits.collectives.owned import Sharded
from fewbits.collectives.payload import Unit
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import ReductionTask, commit
from fewbits.core.operator import Operator
from fewbits.reference.formats import FLOAT32
from fewbits.rng import Rng
from fewbits.session.auto import measured
from fewbits.theory import cost
from fewbits.theory.cost import Codec, Link
from fewbits.transport.torch_comm import TorchComm

_PINGS, _TRANSFERS, _CODINGS = 21, 3, 8
_FEW, _PIECES, _STEPS = 64, 8, 12  # values of a unit, pieces of a step, steps
_BYTES = 4_000_000  # sent by every rank in a transfer: many times what may pass in a burst
_LONG = 0.05  # seconds for which a transfer should last, so that its beginning is a small part
_MOST = 16  # messages of a transfer


def of_link(comm: TorchComm) -> Link:
    """Bits a second that a rank sends while it receives as many, and seconds for a few bytes."""
    pings = [_seconds(lambda: largest(comm, [0.0])) for _ in range(_PINGS)]
    rate, busy = _transfers(comm, 1)
    if (once := 8 * _BYTES / rate) < _LONG:
        rate, busy = _transfers(comm, min(_MOST, math.ceil(_LONG / once)))
    latency, exchange = largest(comm, [statistics.median(pings), _exchange(comm)])
    return Link(rate, latency, exchange, busy)


def _transfers(comm: TorchComm, messages: int) -> tuple[float, float]:
    """Bits a second of so many messages to every rank; how busy they keep its processors."""
    part = Buffer.zeros(_BYTES // (comm.size - 1))
    mails = [
        ([part] * comm.size, [Buffer.zeros(part.size) for _ in range(comm.size)])
        for _ in range(messages)
    ]

    def transfer() -> None:
        for pending in [comm.start(mail) for mail in mails]:
            pending.wait()

    seconds, worked = [], []
    for _ in range(_TRANSFERS):
        largest(comm, [0.0])  # all begin together
        began = time.process_time()
        seconds.append(_seconds(transfer))
        worked.append(sharing(comm) * (time.process_time() - began))
    sent = 8 * part.size * (comm.size - 1) * messages
    busy = statistics.median(worked) / statistics.median(seconds)
    slowest, busy = largest(comm, [statistics.median(seconds), min(1.0, busy)])
    return sent / slowest, busy


def sharing(comm: TorchComm) -> float:
    """How many ranks share a processor, at least 1: all of them run on this machine."""
    return max(1.0, comm.size / (os.cpu_count() or 1))


def _exchange(comm: TorchComm) -> float:
    """A rank's seconds for one exchange of messages, from steps of pieces with next to nothing."""
    operator = registry.operator("natural")
    units = [
        Unit(f"probe/{number}", _FEW * number, _FEW, operator, operator, number)
        for number in range(comm.size)
    ]
    values = np.ones(_FEW * comm.size, np.uint32)
    pieces = [(values.copy(), Sharded(ReductionTask(units, FLOAT32, comm))) for _ in range(_PIECES)]
    progress, rng = RankProgress(), Rng.from_seed(0)

    def step() -> None:
        overlap = Overlap()
        for own, reduction in pieces:
            overlap.add(reduction.hops(own, rng, progress), lambda _: None)
        overlap.finish()
        commit(comm, progress)

    seconds = [_seconds(step) for _ in range(_STEPS)]
    exchanges = cost.sharded(_PIECES * cost.PIECE, comm.size).exchanges(_PIECES * cost.PIECE)
    return statistics.median(seconds[_STEPS // 2 :]) / exchanges


def of_codec(comm: TorchComm, operator: Operator, sample: npt.NDArray[np.float32]) -> Codec:
    """Bits of a value of the gradient, and the slowest rank's speeds."""
    largest(comm, [0.0])
    # The mean and not the best: what other ranks take of the processors is part of it.
    own = measured(operator, sample, _CODINGS, statistics.mean)
    speeds = [-own.encode_values_per_second, -own.decode_values_per_second]
    bits, *slowest = largest(comm, [own.bits_per_value, *speeds])
    return Codec(bits, -slowest[0], -slowest[1])


def of_step(comm: TorchComm, values: int, sent_bytes: int, codec_cpu_seconds: float) -> Codec:
    """The same from a step of the collective `sharded`: with feedback an operator is not all.

    Seconds of the processor, which others need as well: while one rank codes, some only wait.
    """
    traffic = cost.sharded(values, comm.size)
    (seconds,) = largest(comm, [sharing(comm) * codec_cpu_seconds])
    speed = (traffic.encoded + traffic.decoded) / max(seconds, 1e-9)
    (bits,) = largest(comm, [8 * sent_bytes / traffic.sent])
    return Codec(bits, speed, speed)


def as_json(link: Link, codecs: Mapping[str, Codec]) -> dict[str, Any]:
    """The inputs as they are kept."""
    return {"link": asdict(link), "codecs": {name: asdict(own) for name, own in codecs.items()}}


def _seconds(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
