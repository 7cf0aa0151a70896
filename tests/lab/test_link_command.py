"""The laboratory's links are as slow as they say, its bytes the interface's, and it cleans up."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fewbits.errors import SpecError
from fewbits.exits import FAILED
from fewbits.train import shaping
from fewbits_lab import cli
from fewbits_lab.links.names import DEFAULT
from fewbits_lab.links.network import Network
from fewbits_lab.links.setting import ShapedLink

RATE, BURST = 200e6, 128_000
NAMESPACES = Path("/run/netns")


def missing() -> str:
    """Why there can be no links here, if so."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    absent = [program for program in ("ip", "tc", "nft") if shutil.which(program) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    probe = f"fewbits-probe-{os.getpid()}"
    allowed = shaping.works("ip", "netns", "add", probe)
    allowed = allowed and shaping.works("ip", "netns", "exec", probe, "true")
    shaping.works("ip", "netns", "delete", probe)
    return "" if allowed else "network namespaces are not allowed here"


needs_links = pytest.mark.skipif(bool(missing()), reason=missing() or "links can be made")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "fewbits_lab.cli", "link", *map(str, arguments)]


def namespaces(pid: int) -> set[str]:
    return {path.name for path in NAMESPACES.glob(f"fewbits-{pid}-*")}


def children(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def running(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists()


def run(*arguments: object) -> tuple[int, str, str]:
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        out, err = process.communicate(timeout=120)
    assert not namespaces(process.pid)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("links")


@pytest.fixture(scope="module")
def measured(folder: Path) -> dict:
    pytest.importorskip("torch")
    code, out, err = run(
        "--ranks", 2, "--rate", "200Mbit", "--params", "5e5", "--repeats", 2,
        "--contender", "natural", "--out", folder, "--json",
    )  # fmt: skip
    assert code == 0, err
    (found,) = json.loads(out)["settings"]
    return found


def contender(measured: dict, name: str) -> dict:
    return next(row for row in measured["contenders"] if row["contender"] == name)


@needs_links
def test_links_are_as_slow_as_they_say(measured: dict) -> None:
    assert measured["shaping"]["rate"] == "tbf"
    for name in ("none", "natural"):
        row = contender(measured, name)
        least = (row["interface_bytes"]["mean"] - BURST) * 8 / RATE
        assert min(row["samples"]) >= least
    plain = contender(measured, "none")["interface_bytes"]["mean"]
    assert plain == pytest.approx(4 * measured["params"], rel=0.05)
    assert measured["compute_seconds"] < (plain - BURST) * 8 / RATE


@needs_links
def test_the_interface_sees_what_is_reported(measured: dict) -> None:
    row = contender(measured, "natural")
    reported, seen = row["reported_bytes"]["mean"], row["interface_bytes"]["mean"]
    assert reported <= seen <= 1.05 * reported + 4000
    assert row["codec_seconds"] > 0
    assert row["wire_seconds"] > 0
    assert contender(measured, "compute")["interface_bytes"]["busiest"] < 4000


@needs_links
def test_the_planner_gets_what_was_measured(measured: dict) -> None:
    inputs = measured["inputs"]
    # A rank of four million bytes at 200 Mbit/s: neither a burst nor a header changes that much.
    assert 0.5 * RATE < inputs["link"]["bandwidth_bits_per_second"] < 1.1 * RATE
    assert set(inputs["codecs"]) == {"natural"}
    assert inputs["codecs"]["natural"]["bits_per_value"] == pytest.approx(9, rel=0.01)
    for name in ("none", "natural"):
        planned = contender(measured, name)["planned_seconds"]
        wire = contender(measured, name)["interface_bytes"]["mean"] * 8 / RATE
        assert planned > 0.8 * wire
    assert contender(measured, "compute")["planned_seconds"] is None


@needs_links
def test_replicas_stay_equal(measured: dict) -> None:
    rows = [contender(measured, name) for name in ("none", "natural")]
    assert all(row["replicas_agree"] for row in rows)
    assert rows[0]["parameters_sha256"] != rows[1]["parameters_sha256"]
    assert contender(measured, "compute")["parameters_sha256"] is None


@needs_links
def test_what_is_in_the_folder_is_not_measured_again(measured: dict, folder: Path) -> None:
    assert (folder / "steps.svg").read_text().startswith("<svg")
    code, out, err = run(
        "--ranks", 2, "--rate", "200Mbit", "--params", "5e5", "--repeats", 2,
        "--contender", "natural", "--out", folder,
    )  # fmt: skip
    assert code == 0, err
    for wanted in ("200 Mbit/s, 2 ranks", "interleaved repeats", "x plain", "natural", "equal"):
        assert wanted in out
    kept = json.loads((folder / "results.json").read_text())["settings"]
    assert kept == [measured]


def started(contender: str = "natural", programs: int = 2) -> subprocess.Popen[str]:
    """The command, when that many programs of it run."""
    process = subprocess.Popen(
        command("--ranks", 2, "--rate", "1Mbit", "--params", "1e5", "--contender", contender),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # A shell starts what runs in its background with this signal ignored, the tests included.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 60
    while len(children(process.pid)) < programs or len(namespaces(process.pid)) < 3:
        if time.monotonic() > until:
            process.terminate()
            pytest.fail("the ranks did not start")
        time.sleep(0.02)
    return process


@needs_links
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_nothing_is_left_after_a_signal(number: signal.Signals, code: int) -> None:
    pytest.importorskip("torch")
    with started() as process:
        ranks = children(process.pid)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == code, err
        assert "Traceback" not in err
        assert not namespaces(process.pid)
        assert not any(map(running, ranks))


@needs_links
def test_a_rank_that_dies_is_named_and_the_others_are_ended() -> None:
    pytest.importorskip("torch")
    with started() as process:
        ranks = sorted(children(process.pid))
        os.kill(ranks[-1], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        assert process.returncode == FAILED
        assert len(err.splitlines()) == 1
        assert "was ended by SIGKILL" in err
        assert not namespaces(process.pid)
        assert not any(map(running, ranks))


@needs_links
def test_no_program_outlives_a_killed_launcher() -> None:
    """Neither ranks nor the aggregator; the namespaces are left, as nobody can remove them."""
    pytest.importorskip("torch")
    with started("natural@switch", 3) as process:
        programs = children(process.pid)
        process.kill()
        process.wait()
        until = time.monotonic() + 20
        while (left := set(filter(running, programs))) and time.monotonic() < until:
            time.sleep(0.05)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        for name in namespaces(process.pid):
            shaping.run("ip", "netns", "delete", name)
        assert not left


SENDER = """
import socket, time
s = socket.socket(type=socket.SOCK_DGRAM)
for _ in range(400):
    s.sendto(repr(time.monotonic()).encode(), ("10.77.0.2", 7000))
    time.sleep(5e-4)
"""
RECEIVER = """
import socket, time
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind(("10.77.0.2", 7000))
s.settimeout(5)
print("ready", flush=True)
took = []
try:
    while True:
        took.append(-float(s.recv(100)) + time.monotonic())
        s.settimeout(1)
except TimeoutError:
    print(len(took), min(took))
"""


@needs_links
def test_links_delay_and_lose_packets() -> None:
    with Network(2, ShapedLink(None, 0.02, 0.2)) as network:
        prefix = [["ip", "netns", "exec", network.namespace(rank)] for rank in (0, 1)]
        with subprocess.Popen(
            [*prefix[1], sys.executable, "-Ic", RECEIVER], stdout=subprocess.PIPE, text=True
        ) as receiver:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "ready\n"
            subprocess.run([*prefix[0], sys.executable, "-Ic", SENDER], check=True, timeout=30)
            arrived, least = receiver.stdout.readline().split()
        assert network.shaping.delay in ("netem", "relay")
        assert network.shaping.loss in ("netem", "nftables")
    assert 0.02 <= float(least) < 0.5
    assert 270 <= int(arrived) <= 370  # 320 with a deviation of 8
    assert not namespaces(os.getpid())


@needs_links
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rate", "fast"], "--rate"),
        (["--ranks", "1"], "--ranks"),
        (["--latency", "5"], "--latency"),
        (["--loss", "2"], "--loss"),
        (["--repeats", "0"], "--repeats"),
        (["--contender", "powersgd:rank=x"], "--contender"),
        (["--contender", "nonsense"], "unknown operator 'nonsense'"),
        (["--contender", "nonsense@switch"], "unknown operator 'nonsense'"),
        (["--bogus"], "--bogus"),
    ],
)
def test_bad_arguments_are_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["link", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system is what is missing")
@pytest.mark.parametrize("absent", ["root", "ip", "tc"])
def test_what_is_missing_is_said_in_one_line(
    absent: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000 if absent == "root" else 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == absent else f"/{name}")
    assert cli.main(["link", "--quick"]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "root" in err if absent == "root" else f"needs {absent}: apt install iproute2" in err


@needs_links
def test_loss_without_netem_needs_nft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Network, "_has_netem", False)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "nft" else f"/{name}")
    with pytest.raises(SpecError, match="needs nft"), Network(2, ShapedLink(None, 0.0, 0.1)):
        pass
    assert not namespaces(os.getpid())


@needs_links
@pytest.mark.soak
def test_a_switch_in_the_middle_survives_lost_packets() -> None:
    code, out, err = run(
        "--ranks", 3, "--rate", "200Mbit", "--loss", "1%", "--params", "5e5", "--repeats", 2,
        "--contender", "natural@switch", "--json",
    )  # fmt: skip
    assert code == 0, err
    (found,) = json.loads(out)["settings"]
    own = contender(found, "natural@switch")
    assert own["replicas_agree"]
    plain = contender(found, "none")
    assert own["interface_bytes"]["mean"] < 0.35 * plain["interface_bytes"]["mean"]


def test_the_help_names_every_kind_of_contender(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["link", "--help"]) == 0
    text = capsys.readouterr().out
    for name in (*DEFAULT, "natural@switch"):
        assert name in text, name
