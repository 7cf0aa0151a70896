"""SuperLink and SuperNodes as processes of this machine: started, used for runs, ended."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from fewbits.errors import MissingExtraError, PeerError
from fewbits_lab.federation.meter import Meter

_STARTING = 120.0  # seconds; it takes 3 to 12 on two cores
_ENDING = 15.0  # seconds after which a process is killed
_POLL = 0.1


class Federation:
    """A SuperLink and `nodes` SuperNodes, each behind a meter; everything is kept in `folder`.

    Nothing leaves the machine: no telemetry, no look for updates, no installation of packages.
    """

    def __init__(self, folder: Path, nodes: int = 2) -> None:
        self._folder, self._nodes = folder, nodes
        self._stack = ExitStack()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.meters: list[Meter] = []

    def __enter__(self) -> "Federation":
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, app: Path, config: Mapping[str, str | int | float], timeout: float) -> str:
        """Run the app of a folder to its end; its log. `PeerError` if it does not end well."""
        words = " ".join(
            f"{key}={value!r}" if isinstance(value, str) else f"{key}={value}"
            for key, value in config.items()
        )
        command = [_tool("flwr"), "run", str(app), "here", "--stream", "--run-config", words]
        log = self._folder / "run.log"
        with log.open("wb") as out:
            process = self._spawned("flwr run", command, out)
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise PeerError(f"flwr run has not ended within {timeout:g} s: see {log}") from None
        text = log.read_text(errors="replace")
        if process.returncode:
            last = "; ".join(text.strip().splitlines()[-3:])
            raise PeerError(f"flwr run failed with code {process.returncode}: {last}")
        return text

    def _stop(self) -> None:
        self._stack.close()
        end_all(self._folder / "home")

    def _start(self) -> None:
        port = _free_port()
        home = self._folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "here"\n\n[superlink.here]\n'
            f'address = "127.0.0.1:{port}"\ninsecure = true\n'
        )
        self._launch("superlink", ["--insecure", "--host", "127.0.0.1", "--port", str(port)])
        self._until_listening("superlink", port)
        for number in range(self._nodes):
            meter = self._stack.enter_context(Meter(("127.0.0.1", port)))
            self.meters.append(meter)
            own = f"partition-id={number} num-partitions={self._nodes}"
            options = ["--insecure", "--superlink", meter.address, "--port", str(_free_port())]
            self._launch(f"supernode-{number}", [*options, "--node-config", own])

    def _launch(self, name: str, options: Sequence[str]) -> None:
        program = _tool(f"flower-{name.partition('-')[0]}")
        out = self._stack.enter_context((self._folder / f"{name}.log").open("wb"))
        self._processes[name] = self._spawned(name, [program, *options], out)

    def _spawned(
        self, name: str, command: Sequence[str], out: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=self._folder,
            env=self._environment(),
            start_new_session=True,  # what it starts is ended with it
        )
        self._stack.callback(_end, process)
        return process

    def _environment(self) -> dict[str, str]:
        own = {
            "FLWR_HOME": str(self._folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        return {**os.environ, **own}

    def _until_listening(self, name: str, port: int) -> None:
        end = time.monotonic() + _STARTING
        while time.monotonic() < end:
            if self._processes[name].poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(_POLL)
            else:
                return
        raise PeerError(f"{name} does not listen: see {self._folder / name}.log")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it has started."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
            process.wait(_ENDING)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue


def end_all(home: Path) -> None:
    """End every process that has this folder for its `FLWR_HOME`: what Flower's daemons leave."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + _ENDING
        for process in _at_home(home):
            with suppress(ProcessLookupError):
                os.kill(process, kind)
        while _at_home(home) and time.monotonic() < end:
            time.sleep(_POLL)


def _at_home(home: Path) -> list[int]:
    entry = f"FLWR_HOME={home}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise MissingExtraError.of(f"this needs {name}", "flower")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
