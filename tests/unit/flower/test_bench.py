"""The counting proxy, and a federation that cannot start."""

import socket
import threading
import time
from pathlib import Path

import pytest

from fewbits.bench.flower import federation
from fewbits.bench.flower.federation import Federation
from fewbits.bench.flower.meter import Meter
from fewbits.errors import MissingExtraError, PeerError
from fewbits.lab.experiments import flower


def echo(listener: socket.socket) -> None:
    """Sends everything back twice."""
    connection, _ = listener.accept()
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data + data)


def test_a_meter_passes_everything_on_and_counts_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        with Meter(listener.getsockname()[:2]) as meter:
            host, port = meter.address.split(":")
            start = time.time()
            sent = bytes(range(256)) * 1000
            with socket.create_connection((host, int(port))) as client:
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                got = b"".join(iter(lambda: client.recv(1 << 16), b""))
            assert len(got) == meter.count("down", start, time.time() + 1)
            assert meter.count("up", start, time.time() + 1) == len(sent)
            assert meter.count("up", 0, start) == meter.count("down", time.time() + 1, 1e12) == 0
            assert got[:256] == sent[:256]


def test_a_superlink_that_does_not_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(federation, "_tool", lambda name: "false")
    with pytest.raises(PeerError, match="superlink does not listen"), Federation(tmp_path):
        pass


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"fewbits\[flower\]"), Federation(tmp_path):
        pass


def test_findings_and_figure_of_the_experiment() -> None:
    sizes = {"none": 4_000_000, "natural": 1_000_000, "natural:coder=rans": 500_000}
    rows = [
        flower.Row(operator, 10**6, turn, node, size + turn, 4_000_000 if turn == 1 else size, True)
        for operator, size in sizes.items()
        for turn in (1, 2, 3)
        for node in (0, 1)
    ]
    first, second, third = flower.findings(rows)
    assert "4.00 times fewer bytes up and 4.00 times fewer down" in first
    assert "8.00 times fewer bytes up and 8.00 times fewer down" in second
    assert third.startswith("Every client received")
    assert len(flower.draw(rows).axes) == 2
