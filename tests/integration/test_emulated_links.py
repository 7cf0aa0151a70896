"""Emulated links: their rates, what is left of them, and `fewbits train` on them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fewbits.errors import PeerError, SpecError
from fewbits.train import launcher, links, shaping
from fewbits.train.emulated import EmulatedLinks

RATE = 2e7
NOBODY = 65534

# Every rank sends `size` bytes to each rank that it is told, as soon as all are ready.
TRAFFIC = """
import socket, sys, threading, time
rank, size, sources, *targets = map(int, sys.argv[1:])
server = socket.create_server((f"10.77.0.{rank + 1}", 5000))
print("ready", flush=True)
sys.stdin.readline()
def read(peer):
    while peer.recv(1 << 16): pass
def receive():
    readers = [threading.Thread(target=read, args=server.accept()[:1]) for _ in range(sources)]
    for reader in readers: reader.start()
    for reader in readers: reader.join()
receiving = threading.Thread(target=receive)
receiving.start()
for target in targets:
    peer = socket.create_connection((f"10.77.0.{target + 1}", 5000))
    peer.sendall(bytes(size))
    peer.close()
receiving.join()
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def network() -> Iterator[EmulatedLinks]:
    try:
        made = EmulatedLinks(RATE, 3)
    except SpecError as error:
        pytest.skip(f"no namespaces here: {error}")
    with closing(made):
        yield made


def seconds(network: EmulatedLinks, size: int, targets: list[list[int]]) -> float:
    """Until all ranks have all bytes; each sends `size` to its targets."""
    ranks = []
    for rank, own in enumerate(targets):
        sources = sum(rank in others for others in targets)
        words = [sys.executable, "-c", TRAFFIC, *map(str, (rank, size, sources, *own))]
        ranks.append(
            subprocess.Popen(
                [*network.inside(rank), *words], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
        )  # fmt: skip
    try:
        for process in ranks:
            assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        for process in ranks:
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in ranks:
            assert process.stdout.readline() == "done\n"
        return time.monotonic() - began
    finally:
        for process in ranks:
            process.communicate(timeout=30)


def test_ranks_together_reach_as_many_times_the_rate(network: EmulatedLinks) -> None:
    """One limit for all would take three times as long, and no limit next to nothing."""
    size = 1_000_000
    alone = 8 * size / RATE
    taken = min(seconds(network, size, [[1], [2], [0]]) for _ in range(2))
    assert 0.95 * alone < taken < 1.5 * alone


def test_a_rank_receives_no_faster_than_its_rate(network: EmulatedLinks) -> None:
    """On a limit of what is sent alone, two that send to one would give it twice the rate."""
    size = 500_000
    assert seconds(network, size, [[], [0], [0]]) > 0.95 * 8 * 2 * size / RATE


def test_packets_are_as_large_as_on_a_network(network: EmulatedLinks) -> None:
    shown = subprocess.run(
        [*network.inside(1), shaping.found("ip") or "ip", "link", "show", shaping.VETH],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert " mtu 1500 " in shown.stdout


RANK = """
import json, os, sys, time
print(json.dumps({"event": "step", "pid": os.getpid(), "ifname": os.environ["GLOO_SOCKET_IFNAME"],
    "namespace": os.readlink("/proc/self/ns/net"), "uid": os.getuid()}), flush=True)
"""


def launch(script: str, on_event) -> list[dict]:
    with links.opened("100Mbit", 2) as meeting:
        assert meeting.link["kind"] == links.EMULATED_LINK
        return launcher.launch([sys.executable, "-c", RANK + script], 2, on_event, meeting)


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_a_killed_rank_is_named_and_nothing_is_left(network: EmulatedLinks) -> None:
    before, seen = children(), []

    def kill(event: dict) -> None:
        seen.append(event)
        os.kill(event["pid"], signal.SIGKILL)

    with pytest.raises(PeerError, match=r"^rank 0 was ended by SIGKILL$"):
        launch("time.sleep(60)", kill)
    assert seen[0]["namespace"] != str(Path("/proc/self/ns/net").readlink())
    assert seen[0]["ifname"] == shaping.VETH
    assert children() == before


def test_ctrl_c_leaves_nothing(network: EmulatedLinks) -> None:
    before = children()

    def interrupt(event: dict) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch("time.sleep(60)", interrupt)
    assert children() == before


# It becomes another user itself: that user may have no right to start this interpreter.
STARTER = """
import os, sys
from pathlib import Path
from fewbits.train import launcher, links
if (user := int(sys.argv[1])) != os.geteuid():
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
RANK = "echo '{\\"event\\": \\"step\\"}'; exec cat"  # it ends when its input closes, as ranks do
def show(event):
    print(Path(f"/proc/self/task/{os.getpid()}/children").read_text(), flush=True)
with links.opened("100Mbit", 2) as meeting:
    print(meeting.link["kind"], meeting.link["why_not_emulated"], flush=True)
    launcher.launch(["sh", "-c", RANK], 2, show, meeting)
"""


@pytest.mark.parametrize("user", ["the same", "an ordinary one"])
def test_nothing_outlives_a_starter_that_is_killed(network: EmulatedLinks, user: str) -> None:
    if user == "an ordinary one" and os.geteuid() != 0:
        pytest.skip("this is an ordinary user already")
    chosen = os.geteuid() if user == "the same" else NOBODY
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(chosen)], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout.readline() == "emulated None\n"
    pids = starter.stdout.readline().split()
    assert len(pids) == 5  # the hub, two namespaces, two ranks
    starter.kill()
    starter.communicate()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}/ns").exists() for pid in pids):
        assert time.monotonic() < until, "a process was left behind"
        time.sleep(0.02)


def test_training_on_a_link_is_compared_there_and_on_the_loopback(
    network: EmulatedLinks, tmp_path: Path
) -> None:
    for module in ("torch", "safetensors", "sklearn"):
        pytest.importorskip(module)
    wanted = "--link 50Mbps --operator natural --epochs 1 --batch-size 718 --json"
    done = subprocess.run(
        [sys.executable, "-m", "fewbits.train", *wanted.split(), "--checkpoint", str(tmp_path)],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("fewbits: every worker has an emulated link of 50 Mbit/s")
    found = json.loads(done.stdout)
    assert found["link"] == {
        "bits_per_second": 5e7, "text": "50 Mbit/s", "kind": "emulated", "why_not_emulated": None
    }  # fmt: skip
    (run,), (unshaped,) = found["runs"], found["loopback"]
    assert run["replicas_agree"]
    # No step can be faster than its bytes on the link, but for a burst on each end.
    assert run["step_ms"]["total"] > 8e3 * (run["bytes_per_step"] - 40_000) / 5e7
    # The link changes when bytes arrive, and no bit of the result.
    assert run["parameters_sha256"] == unshaped["parameters_sha256"]
    assert {path.stat().st_uid for path in tmp_path.rglob("*.safetensors")} == {os.geteuid()}
