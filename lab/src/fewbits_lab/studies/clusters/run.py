"""Nodes with slow links between them: bytes and steps of `across=` beside a flat exchange.

    sudo python -m fewbits_lab.studies.clusters.run

Four network namespaces, each with two ranks and one link of 100 Mbit/s; ranks of a node talk over
its loopback. Ten million values, computing replaced by a timed wait. Contenders take turns. Then
ranks, a node and a link fail, and every survivor says what it raised and when.
"""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import statistics
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from fewbits.errors import FewbitsError, PeerError
from fewbits.policy import Default
from fewbits.session import (
    AdapterParts,
    ArrayValues,
    Job,
    ModelParameter,
    ModelParameters,
    Options,
    Session,
    routes,
)
from fewbits.train import shaping
from fewbits.transport.torch_comm import TorchComm
from fewbits_lab.links import tools
from fewbits_lab.links.network import Network
from fewbits_lab.links.program import interface_bytes, join, launched, leave, tell
from fewbits_lab.links.setting import ShapedLink

_RESULTS = Path(__file__).with_name("result.json")
_NODES, _WIDTH, _RATE = 4, 2, 1e8
_VALUES, _JOBS, _COMPUTE = 10_000_000, 4, 0.2
_WARM, _STEPS, _ROUNDS = 3, 4, 3
_LONG_STEPS = 200
_TIMEOUT, _FAULT_STEP = 8.0, 3
_OPERATORS = ("natural", "natural:coder=rans")
FLAT_EXCHANGE, NODE_EXCHANGE = "flat", "nodes"
_FAULTS = ("killed rank", "killed node", "cut link")
_CUT = 2  # the node whose link is cut, or whose ranks are killed


def main() -> None:
    """Measure bytes and steps, train for long, and let things fail."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    parser.add_argument("--fault", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank and options.fault:
        _fail(options.rank, options.fault, Path(options.folder))
    if options.rank:
        _measure(options.rank)
    tools.check_ready()
    document: dict[str, Any] = {
        "nodes": _NODES, "ranks_in_node": _WIDTH, "rate_bits_per_second": _RATE, "values": _VALUES,
        "compute_seconds": _COMPUTE, "steps": _STEPS * _ROUNDS, "timeout_seconds": _TIMEOUT,
    }  # fmt: skip
    with Network(_NODES, ShapedLink(_RATE)) as network:
        (found,) = launched(network, __file__, width=_WIDTH)
    document |= found
    print(json.dumps(found, indent=1), flush=True)
    document["faults"] = [_fault(fault) for fault in _FAULTS]
    _RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document["faults"], indent=1))


def _fault(fault: str) -> dict[str, Any]:
    """What the survivors of a fault raised, and after how many seconds at most."""
    with Network(_NODES, ShapedLink(_RATE)) as network, tempfile.TemporaryDirectory() as folder:
        lines = launched(
            network, __file__, "--fault", fault, "--folder", folder, width=_WIDTH
        )  # fmt: skip
        with contextlib.suppress(PeerError):  # ranks fail, as they should
            for _ in lines:
                if fault == "cut link":
                    shaping.run("ip", "-n", network.hub, "link", "set", f"port{_CUT + 1}", "down")
                    (Path(folder) / "mark").write_text(repr(time.monotonic()))
        told = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("rank-*"))]
        began = float((Path(folder) / "mark").read_text())
    lost = {"killed rank": 1, "killed node": _WIDTH, "cut link": 0}[fault]
    assert len(told) == _NODES * _WIDTH - lost, told
    return {
        "fault": fault,
        "survivors": len(told),
        "errors": sorted({own["error"] for own in told}),
        "seconds": max(own["at"] for own in told) - began,
    }


class _Course:
    """A session of one contender: steps of a model that is a vector, all ranks' gradients apart."""

    def __init__(self, number: int, uplink: str, arrangement: str, timeout: float = 60.0) -> None:
        size = _VALUES // _JOBS
        self.parameters = [ModelParameter(f"w{at}", (size // 1000, 1000)) for at in range(_JOBS)]
        across = (
            range(number % _WIDTH, _NODES * _WIDTH, _WIDTH)
            if arrangement == NODE_EXCHANGE
            else None
        )
        chosen = Options(across=across, timeout=timeout, policy=Default())
        routing = routes(uplink, None, chosen, ModelParameters(self.parameters))
        self.session = Session(TorchComm(None, timeout), routing, chosen, AdapterParts())
        self.session.start()
        node = number - number % _WIDTH
        near = frozenset(range(node, node + _WIDTH)) - {number}
        self.session.progress.near = near  # a flat exchange's bytes are counted apart, too
        self.gradient, self._values = _room(number)
        self.model = np.zeros_like(self.gradient)  # takes no memory before it is written

    def step(self) -> float:
        """Seconds of a step: a wait for computing, in which jobs come one after the other."""
        np.copyto(self._values, self.gradient)
        began, jobs = time.perf_counter(), []
        for at, parameter in enumerate(self.parameters):
            time.sleep(_COMPUTE / _JOBS)
            values = ArrayValues(self._values[at])
            jobs.append(Job(at, values, [parameter], is_last=at == _JOBS - 1))
            self.session.submit(jobs[-1])
        self.session.wait(jobs[-1])
        return time.perf_counter() - began

    def learn(self) -> None:
        """Take a step and use the mean."""
        self.step()
        self.model -= self._values


@cache
def _room(number: int) -> tuple[Any, Any]:
    """A rank's gradient, and memory for its copies, which contenders share."""
    source = np.random.default_rng(number)
    gradient = 1e-3 * source.standard_t(3, (_JOBS, _VALUES // _JOBS)).astype(np.float32)
    return gradient, np.empty_like(gradient)


def _measure(work: str) -> None:
    """One rank: contenders take turns, then the long run."""
    number, _ = join(work)
    names = [
        (uplink, arrangement)
        for uplink in _OPERATORS
        for arrangement in (FLAT_EXCHANGE, NODE_EXCHANGE)
    ]
    courses = {name: _Course(number, *name) for name in names}
    for course in courses.values():
        for _ in range(_WARM):
            course.step()
    seconds: dict[tuple[str, str], list[float]] = {name: [] for name in names}
    sent = {name: np.zeros(4) for name in names}  # payload, headers, inside, interface
    for _ in range(_ROUNDS):
        for name, course in courses.items():
            dist.barrier()
            before = _counted(course, number)
            seconds[name] += [_slowest(course.step()) for _ in range(_STEPS)]
            dist.barrier()
            sent[name] += _counted(course, number) - before
    rows = []
    for name in names:
        totals = torch.from_numpy(sent[name])
        dist.all_reduce(totals)
        payload, headers, inside, interface = (totals / (_NODES * _STEPS * _ROUNDS)).tolist()
        rows.append({
            "operator": name[0], "arrangement": name[1], "payload_bytes": payload,
            "header_bytes": headers, "inside_bytes": inside, "interface_bytes": interface,
            "code_bytes": _code_bytes(courses[name]), "seconds": statistics.median(seconds[name]),
        })  # fmt: skip
    course = courses[_OPERATORS[1], NODE_EXCHANGE]
    for _ in range(_LONG_STEPS):
        course.learn()
    digests: list[Any] = [None] * (_NODES * _WIDTH)
    dist.all_gather_object(digests, hashlib.sha256(course.model.tobytes()).hexdigest())
    tell(number, {
        "rows": rows,
        "long": {
            "steps": _LONG_STEPS, "values": _VALUES, "different_models": len(set(digests)),
        },
    })  # fmt: skip
    leave()


def _counted(course: _Course, number: int) -> Any:
    spent = course.session.progress.spent
    interface = interface_bytes() if number % _WIDTH == 0 else 0
    return np.array([spent.payload_bytes, spent.header_bytes, spent.inside_bytes, interface], float)


def _slowest(seconds: float) -> float:
    slowest = torch.tensor([seconds])
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def _code_bytes(course: _Course) -> float:
    """Bytes of the whole model's codes, as this rank's uplink makes them from its gradient."""
    from fewbits.collectives.payload import Payload
    from fewbits.collectives.units import Batch
    from fewbits.reference.formats import FLOAT32
    from fewbits.rng import Rng

    routing = course.session.routing
    units = routing.units(course.parameters, _VALUES)
    payload = Payload(units, "uplink", FLOAT32)
    values = course.gradient.reshape(-1).view(np.uint32)
    Batch([payload], FLOAT32).encode(values, Rng.from_seed(0))
    return float(payload.length)


def _fail(work: str, fault: str, folder: Path) -> None:
    """One rank of a run in which something fails at a step."""
    number, _ = join(work)
    course = _Course(number, _OPERATORS[1], NODE_EXCHANGE, _TIMEOUT)
    culprits = {"killed rank": {_CUT * _WIDTH}, "cut link": set[int]()}
    dying = culprits.get(fault, set(range(_CUT * _WIDTH, (_CUT + 1) * _WIDTH)))
    told = {"error": "nothing", "message": "", "at": 0.0}
    try:
        for step in range(1000):
            if step == _FAULT_STEP:
                tell(number, {})  # the launcher may cut the link now
            if step == _FAULT_STEP and number in dying:
                (folder / "mark").write_text(repr(time.monotonic()))
                os.kill(os.getpid(), signal.SIGKILL)
            course.step()
    except FewbitsError as error:
        told |= {"error": type(error).__name__, "message": str(error)}
    told["at"] = time.monotonic()
    (folder / f"rank-{number}").write_text(json.dumps(told))
    _wait_for_others(folder)
    os._exit(0)


def _wait_for_others(folder: Path) -> None:
    """Stay until all have told, so that nobody is woken by this rank's end."""
    deadline = time.monotonic() + 3 * _TIMEOUT
    while time.monotonic() < deadline and len(list(folder.glob("rank-*"))) < _NODES * _WIDTH:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
