"""`fewbits switch` and `fewbits train --collective switch`, as programs."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fewbits.errors import PeerError
from fewbits.switch.keys import KEY_VARIABLE, SwitchKey
from fewbits.switch.protocol import Address
from switches import exchanged

FEWBITS = (sys.executable, "-m", "fewbits.cli")


@contextmanager
def switch(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running aggregator and the line with which it began."""
    command = [*FEWBITS, "switch", "--bind", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        try:
            assert p.stdout is not None
            yield p, p.stdout.readline()
        finally:
            p.kill()


def test_statistics_come_on_a_signal_and_at_the_end() -> None:
    with switch("--workers", "2", "--slots", "4", "--json") as (process, line):
        assert process.stdout is not None
        listening = json.loads(line)
        address = Address.of(listening["address"])
        assert listening["memory_bytes"] > 4 * 144 * 1024
        exchanged([address], 2, (30_000,), 8192)
        process.send_signal(signal.SIGUSR1)
        asked = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(timeout=20) == 0
    assert asked["event"] == "statistics"
    assert (asked["jobs"], asked["sums"], asked["codes"]) == (1, 4, 60_000)
    last = json.loads(rest.splitlines()[-1])
    assert last["codes"] == 60_000
    assert last["malformed"] == last["mismatched"] == 0


def test_the_text_says_where_and_how_much_memory() -> None:
    with switch("--workers", "3") as (process, line):
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        rest = process.stdout.read()
        assert process.wait(timeout=20) == 0
    assert line.startswith("listening on 127.0.0.1:")
    assert "for 3 workers, 32 slots of 144.4 KiB" in line
    assert "codes summed" in rest


@pytest.mark.parametrize(
    "options",
    [
        ("--workers", "65"),
        ("--workers", "2", "--chunk", "70000"),
        ("--workers", "2", "--bind", "nowhere"),
        ("--workers", "2", "--bind", "0.0.0.0:0"),  # anyone could join
        ("--workers", "2", "--bind", "[::]:0"),
        ("--workers", "2", "--key-file", "nowhere"),
        (),
    ],
)
def test_bad_options_are_one_line(options: tuple[str, ...]) -> None:
    done = subprocess.run([*FEWBITS, "switch", *options], capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


SECRET = "a key of enough bytes"


@pytest.mark.parametrize("named", ["file", "environment"])
def test_who_has_the_key_is_served_and_nobody_sees_it(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    options = ["--key-file", str(file)]
    if named == "environment":
        monkeypatch.setenv(KEY_VARIABLE, SECRET)
        options = ["--bind", "0.0.0.0:0"]
    with switch("--workers", "2", *options) as (process, line):
        port = int(line.split()[2].rpartition(":")[2])
        here = Address("127.0.0.1", port)
        exchanged([here], 2, (30_000,), 8192, secret=SwitchKey(SECRET))
        with pytest.raises(PeerError):
            exchanged([here], 2, (30_000,), 8192, timeout=0.5)
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=20)
        assert process.returncode == 0
    assert line.endswith("with a key\n")
    counts = {
        words: int(count.replace(",", "")) for count, words in map(_halves, rest.splitlines())
    }
    assert counts["jobs begun"] == 1
    assert counts["packets with a wrong tag"] > 1
    assert SECRET not in line + rest + errors


def _halves(line: str) -> tuple[str, str]:
    count, _, words = line.strip().partition("  ")
    return count, words


def test_a_key_file_of_everyone_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(SECRET)
    file.chmod(0o644)
    command = [*FEWBITS, "switch", "--workers", "2", "--key-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "chmod 600" in done.stderr
    assert SECRET not in done.stderr


def train(folder: Path, *more: str, epochs: int, status: int = 0) -> dict[str, Any]:
    """The run of natural compression on a switch."""
    command = [
        *FEWBITS, "train", "--operator", "natural", "--collective", "switch",
        "--epochs", str(epochs), "--checkpoint", str(folder), "--json", *more,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    if status:
        return {"stderr": done.stderr}
    run = json.loads(done.stdout)["runs"][0]
    assert run["replicas_agree"]
    return run


def test_the_settings_of_a_switch_are_checked() -> None:
    for options in (
        ("--aggregator", "127.0.0.1:9"),
        ("--collective", "switch", "--operator", "top-k|natural"),
        ("--collective", "switch", "--feedback", "ef14", "--operator", "natural"),
        ("--collective", "switch", "--operator", "tiny"),
    ):
        done = subprocess.run([*FEWBITS, "train", *options], capture_output=True, text=True)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.soak
def test_a_killed_aggregator_ends_the_run_and_resume_goes_on_with_the_same_bits(
    tmp_path: Path,
) -> None:
    whole = train(tmp_path / "whole", epochs=3)
    train(tmp_path / "parts", epochs=1)
    with switch("--workers", "2", "--json") as (process, line):
        where = ("--aggregator", json.loads(line)["address"])
        command = [
            *FEWBITS, "train", "--operator", "natural", "--collective", "switch", "--epochs", "400",
            "--checkpoint", str(tmp_path / "parts"), "--resume", *where,
        ]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
            _until_sums(process, 10)
            process.kill()
            began = time.monotonic()
            _, errors = running.communicate()
            assert running.returncode == 1
            assert time.monotonic() - began < 60
            assert "PeerError" in errors
            assert "aggregator" in errors
    # It may have ended an epoch or two before; whatever it saved is a step of the same run.
    parts = train(tmp_path / "parts", "--resume", epochs=3)
    assert parts["parameters_sha256"] == whole["parameters_sha256"]


def _until_sums(process: subprocess.Popen[str], sums: int) -> None:
    assert process.stdout is not None
    while True:
        time.sleep(0.2)
        process.send_signal(signal.SIGUSR1)
        if json.loads(process.stdout.readline())["sums"] >= sums:
            return
