"""The `fewbits` command in a fresh process, without the time that an interpreter takes to start.

A template process imports NumPy and the library once and forks a child for every command. The child
gets pipes, arguments, environment and folder of its own and ends like any program, but for the
interpreter's own end. What depends on the start of an interpreter starts one.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_LONGEST = 1 << 20  # bytes of an order


def run(
    *arguments: object, stdin: bytes = b"", env: Mapping[str, str] | None = None, timeout: int = 120
) -> subprocess.CompletedProcess[bytes]:
    """What a command did, as `subprocess.run` tells it; after `timeout` seconds it is killed."""
    words = [str(word) for word in arguments]
    order = {
        "words": words,
        "env": dict(os.environ if env is None else env),
        "folder": str(Path.cwd()),
        "timeout": timeout,
    }
    (own_in, its_in), (its_out, own_out), (its_err, own_err) = (
        os.pipe()[::-1], os.pipe()[::-1], os.pipe()[::-1],
    )  # fmt: skip
    template = _template()
    socket.send_fds(template, [json.dumps(order).encode()], [its_in, its_out, its_err])
    for end in (its_in, its_out, its_err):
        os.close(end)
    read: dict[int, bytes] = {}
    readers = [
        threading.Thread(target=lambda end=end: read.update({end: _all(end)}))
        for end in (own_out, own_err)
    ]
    for reader in readers:
        reader.start()
    _put(own_in, stdin)
    for reader in readers:
        reader.join()
    status = int(template.recv(64))
    return subprocess.CompletedProcess(words, status, read[own_out], read[own_err])


def run_text(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The same, with text for output and complaints."""
    done = run(*arguments, **options)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def _all(end: int) -> bytes:
    with os.fdopen(end, "rb") as file:
        return file.read()


def _put(end: int, data: bytes) -> None:
    try:
        with os.fdopen(end, "wb", buffering=0) as file:
            file.write(data)
    except BrokenPipeError:
        pass  # a command need not read what it is given


@cache
def _template() -> socket.socket:
    """The connection to the template, which ends with it."""
    own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for side in (own, its):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
    words = [sys.executable, str(Path(__file__)), str(its.fileno())]
    process = subprocess.Popen(words, pass_fds=[its.fileno()])
    its.close()

    def end() -> None:
        own.close()
        process.wait(timeout=60)

    atexit.register(end)
    return own


def _serve(orders: socket.socket) -> None:
    import fewbits.cli
    import fewbits.codec

    while True:
        data, ends, _, _ = socket.recv_fds(orders, _LONGEST, 3)
        if not data:
            return
        child = os.fork()
        if child == 0:
            orders.close()
            _live(json.loads(data), ends, fewbits.cli.main)
        for end in ends:
            os.close(end)
        _, status = os.waitpid(child, 0)
        orders.send(str(os.waitstatus_to_exitcode(status)).encode())


def _live(order: dict[str, Any], ends: list[int], main: Any) -> None:
    """A command's life: it never returns."""
    signal.alarm(order["timeout"])
    for end, number in zip(ends, range(3), strict=True):
        os.dup2(end, number)
        os.close(end)
    sys.stdin, sys.stdout, sys.stderr = (open(number, mode) for number, mode in enumerate("rww"))  # noqa: PTH123, SIM115
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["folder"])
    sys.argv = ["fewbits", *order["words"]]
    status = 1
    try:
        status = main()
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status or 0)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
