"""`fewbits launch`: starts workers that survive each other, and keeps the store that they meet in.

torchrun ends all workers when one fails. Here the others go on, and the store is in this program.
"""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass

from fewbits.cli.console import Parser, print_json, say, up_to
from fewbits.errors import MissingExtraError, PeerError, SpecError
from fewbits.exits import ended_by_sigterm

_MOST = 4096
_PORTS = 65_535
_LOOK = 0.1  # seconds between two looks at the workers
_PATIENCE = 10.0  # seconds that workers have to end


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits launch --workers 4 --restarts 3 examples/ddp_survivors.py")
    add = parser.add_argument
    add("--workers", type=up_to(_MOST), required=True, metavar="N",
        help="workers of this machine, each a process")  # fmt: skip
    add("--begin", type=up_to(_MOST), metavar="N",
        help="training begins with so many, of all machines (default: --workers)")  # fmt: skip
    add("--restarts", type=int, default=0, metavar="N",
        help="start lost workers again, so many times in all (default: 0)")  # fmt: skip
    add("--store", metavar="HOST:PORT",
        help="the store of another machine's fewbits launch (default: one here)")  # fmt: skip
    add("--port", type=int, default=0, metavar="N",
        help="the port of the store here, which any machine may reach (default: any)")  # fmt: skip
    add("script", help="the Python program of a worker")
    add("arguments", nargs=argparse.REMAINDER, help="what the program is given")


@dataclass
class Worker:
    """One place among the workers, and the process that has it."""

    number: int
    process: "subprocess.Popen[bytes]"


def run(options: argparse.Namespace) -> None:
    if options.restarts < 0:
        raise SpecError(f"--restarts must not be negative, got {options.restarts}")
    if not 0 <= options.port <= _PORTS:
        raise SpecError(f"--port must be 0 to {_PORTS}, got {options.port}")
    store, address = _store(options.store, options.port)
    told = {"FEWBITS_STORE": address, "FEWBITS_WORKERS": str(options.begin or options.workers)}
    command = [sys.executable, options.script, *options.arguments]
    workers: list[Worker] = []
    with ended_by_sigterm():
        try:
            for number in range(options.workers):
                workers.append(_started(number, command, told, options.json))  # noqa: PERF401 (ended if one fails)
            ended = _watched(workers, command, told, options)
        finally:
            _end(workers)
            del store
    if not ended:
        raise PeerError(f"none of {options.workers} workers has ended well")


def _watched(
    workers: list[Worker], command: list[str], told: dict[str, str], options: argparse.Namespace
) -> int:
    """Wait for all workers, and start lost ones again; how many have ended well."""
    well, restarts, running = 0, options.restarts, list(workers)
    while running:
        time.sleep(_LOOK)
        for worker in [each for each in running if each.process.poll() is not None]:
            running.remove(worker)
            code = worker.process.returncode
            well += code == 0
            _say("ended", worker, options.json, code=code)
            if code != 0 and restarts > 0 and not well:
                restarts -= 1
                worker.process = _started(worker.number, command, told, options.json).process
                running.append(worker)
    return well


def _end(workers: list[Worker]) -> None:
    """Tell all who still run to end, and do not wait for ever."""
    running = [worker.process for worker in workers if worker.process.poll() is None]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + _PATIENCE
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _started(number: int, command: list[str], told: dict[str, str], json: bool) -> Worker:
    environment = os.environ | told | {"FEWBITS_WORKER": str(number)}
    worker = Worker(number, subprocess.Popen(command, env=environment))
    _say("started", worker, json)
    return worker


def _store(given: str | None, port: int) -> tuple[object, str]:
    """The store, if it is here, and its address."""
    if given is not None:
        host, colon, number = given.rpartition(":")
        if not (host and colon and number.isdigit()):
            raise SpecError(f"--store must be HOST:PORT, got {given!r}")
        return None, given
    try:
        from torch._C._distributed_c10d import TCPStore
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("fewbits launch needs torch", "torch") from error
    store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    return store, f"127.0.0.1:{store.port}"


def _say(event: str, worker: Worker, json: bool, code: int | None = None) -> None:
    pid = worker.process.pid
    if json:
        about = {"event": event, "worker": worker.number, "process": pid}
        print_json(about if code is None else about | {"code": code})
        sys.stdout.flush()
    elif code is None:
        say(f"worker {worker.number} is process {pid}")
    else:
        how = "has ended" if code == 0 else f"was lost (exit code {code})"
        say(f"worker {worker.number}, process {pid}, {how}")
