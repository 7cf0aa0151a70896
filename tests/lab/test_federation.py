"""The counting proxy, and a federation that cannot start."""

import json
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fewbits.errors import MissingExtraError, PeerError
from fewbits_lab import cli
from fewbits_lab.federation import federation, measure
from fewbits_lab.federation.federation import Federation
from fewbits_lab.federation.measure import FederationRun, RoundBytes
from fewbits_lab.federation.meter import Meter
from fewbits_lab.studies.flower import run as flower
from fewbits_lab.studies.flower import show as flower_show


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
        flower.FlowerRow(
            operator, 10**6, turn, node, size + turn, 4_000_000 if turn == 1 else size, True
        )
        for operator, size in sizes.items()
        for turn in (1, 2, 3)
        for node in (0, 1)
    ]
    first, second, third = flower_show.findings(rows)
    assert "4.00 times fewer bytes up and 4.00 times fewer down" in first
    assert "8.00 times fewer bytes up and 8.00 times fewer down" in second
    assert third.startswith("Every client received")
    assert len(flower_show.draw(rows).axes) == 2


def test_the_command_prints_the_bytes_of_every_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("flwr")
    asked = []

    def measured(operators: Sequence[str], *, rounds: int, side: int) -> list[FederationRun]:
        asked.append((list(operators), rounds, side))
        found = [RoundBytes(own, 1, node, 12345, 67890) for own in operators for node in (0, 1)]
        return [FederationRun(found, first_exact=True, in_step=True, rejected=0)]

    monkeypatch.setattr(measure, "measure", measured)
    words = ["federation", "none", "natural", "--rounds", "1", "--side", "10"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out.count("12,345") == 4
    assert cli.main([*words, "--json"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)
    assert len(printed["rounds"]) == 4
    assert asked == 2 * [(["none", "natural"], 1, 10)]
