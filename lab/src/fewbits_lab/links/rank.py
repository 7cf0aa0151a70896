"""One rank, a program in its namespace: every contender's model in one process, taking turns.

`python -m fewbits_lab.links.rank WORK` writes events to stdout, one JSON object a line: which
contender is built or makes a step, so that one knows with whom a failure came, then the result.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from fewbits.errors import SpecError
from fewbits.exits import BAD_INPUT, FAILED, end_with_parent

_MOST_STEPS = 100  # in which a contender must settle


@dataclass(frozen=True, slots=True)
class Work:
    """The orders of the laboratory to a rank."""

    rank: int
    ranks: int
    store: str
    interface: str
    params: int
    warm_up: int
    repeats: int
    contenders: list[str]
    patience: float


def main() -> None:
    """The program; its last line on stderr says what went wrong."""
    work = Work(**json.loads(sys.argv[1]))
    end_with_parent()
    try:
        run(work)
    except SpecError as error:
        _leave(BAD_INPUT, str(error))
    except Exception as error:
        _leave(FAILED, reason(error))
    _leave(0)


def run(work: Work) -> None:
    """All steps of all contenders, then the result."""
    import torch
    import torch.distributed as dist

    from fewbits.bench.machine import this_machine
    from fewbits_lab.links.contenders import build

    machine = asdict(this_machine())  # here, where torch is loaded already
    _take_processor(work.rank)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{work.store}",
        rank=work.rank,
        world_size=work.ranks,
        timeout=timedelta(seconds=work.patience),
    )
    built = []
    for name in work.contenders:
        _say({"event": "build", "contender": name})
        built.append(build(name, work.params, work.rank, work.patience))
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in work.contenders}
    parameters = sum(p.numel() for p in built[0].model.parameters())
    copies, source, target = [], torch.ones(parameters), torch.ones(parameters)
    spent = [_warm_up(contender, work) for contender in built]
    inputs = _inputs(built, spent, work)
    for round_ in range(work.repeats):
        dist.barrier()
        copies.append(_seconds(lambda: target.copy_(source)))
        # Every other round runs backwards, so that nobody always follows the same one.
        for contender in built if round_ % 2 == 0 else reversed(built):
            _say({"event": "step", "contender": contender.name})
            samples[contender.name].append(_timed(contender, work.interface))
    result = {
        contender.name: {
            "samples": samples[contender.name],
            "sha256": contender.digest(),
            "warnings": contender.warnings,
        }
        for contender in built
    }
    dist.barrier()  # nobody leaves while another needs it
    _say(
        {
            "event": "result",
            "parameters": parameters,
            "machine": machine,
            "copies": copies,
            "inputs": inputs,
            "contenders": result,
        }
    )


def _take_processor(rank: int) -> None:
    """A processor for each rank, or as many ranks on each, wherever the system would put them."""
    if hasattr(os, "sched_setaffinity"):
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[rank % len(processors)]})


def _warm_up(contender: Any, work: Work) -> Any:
    """Steps until everything has settled, and what the last one took.

    `auto` needs as many as it takes to decide.
    """
    before = contender.spent()
    for number in range(_MOST_STEPS):
        compression = contender.compression
        undecided = compression is not None and compression.report().trying is not None
        if number >= work.warm_up and not undecided:
            break
        _say({"event": "step", "contender": contender.name})
        before = contender.spent()
        contender.step()
    return contender.spent().since(before)


def _inputs(built: Sequence[Any], spent: Sequence[Any], work: Work) -> dict[str, Any]:
    """The planner's inputs: the link and every contender's codec."""
    import torch

    from fewbits.transport.torch_comm import TorchComm
    from fewbits_lab.links import names, probe

    gradient = torch.cat([p.grad.reshape(-1) for p in built[0].model.parameters()])
    comm = TorchComm(timeout=work.patience)
    link, codecs = probe.of_link(comm), {}
    for own, last in zip(built, spent, strict=True):
        if not names.has_codec(own.name):
            continue
        if own.compression.feedback is None:
            codecs[own.name] = probe.of_codec(
                comm, own.compression.session.routing.uplink, gradient.numpy()
            )
        else:
            figures = len(gradient), last.sent_bytes, last.codec_cpu_seconds
            codecs[own.name] = probe.of_step(comm, *figures)
    return probe.as_json(link, codecs)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _timed(contender: Any, interface: str) -> dict[str, Any]:
    """One step; bytes are read between two barriers, whose own hundred bytes count with them."""
    import torch.distributed as dist

    dist.barrier()
    seen, spent = _sent_bytes(interface), contender.spent()
    cpu = time.process_time()
    elapsed = _seconds(contender.step)
    cpu = time.process_time() - cpu
    spent = contender.spent().since(spent)
    dist.barrier()
    seen = _sent_bytes(interface) - seen
    return {"seconds": elapsed, "cpu_seconds": cpu, "interface_bytes": seen, **spent._asdict()}


def _sent_bytes(interface: str) -> int:
    return int(Path(f"/sys/class/net/{interface}/statistics/tx_bytes").read_text())


def reason(error: BaseException) -> str:
    """The cause in one line: torch wraps what a hook raises in several layers of text."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    inner = first.rpartition("when running the callback: ")[2]
    return inner if inner != first else f"{type(error).__name__}: {first}"


def command(work: Work) -> list[str]:
    """How the rank is started."""
    return [sys.executable, "-m", __name__, json.dumps(asdict(work))]


def _say(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _leave(code: int, message: str = "") -> None:
    """End at once: gloo's threads may hang or abort when the interpreter shuts down."""
    if message:
        sys.stderr.write(f"{message}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
