"""How much a server's process grows in a hostile round, read from the kernel in a child."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
CHILD = """
import json
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
from fewbits.flower import CompressedGrid
from unit.flower.attacks import CODED, changed, copies, exact, forged, frame, with_zeros
from unit.flower.federation import LocalGrid, clients, inflated

NODES, SIDE = 64, 512
HOSTILE = [
    frame(lambda data, bomb=forged(np.zeros(2**26, np.float32), CODED): bomb),
    frame(lambda data, bomb=forged(np.zeros(2**26, np.float32), "sign"): bomb),
    with_zeros(copies(1000)),
    with_zeros(copies(200)),
    with_zeros(copies(1)),
    with_zeros(lambda content: content["metrics"].__setitem__("num-examples", -1)),
    exact("extra", np.zeros((SIDE, SIDE))),
    frame(lambda data: data[: len(data) // 2]),
]


def figure(name):
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split(name + ":")[1].split()[0])


def exchange(grid, local, side, attacks):
    x = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
    record = RecordDict({"arrays": ArrayRecord({"matrix": Array(x)})})
    messages = [Message(record, node, "train") for node in local.clients]
    tickets = grid._outbox.tickets(messages)
    replies = []
    for place, ticket in enumerate(tickets):
        own = local.clients[ticket.node]
        honest = own.app(ticket.message, own.context)
        own.restart()
        sent = [honest] if place % 4 else attacks[place // 4 % len(attacks)](None, honest)
        replies += [inflated(one) for one in sent]
        own.received.clear(), own.honest.clear()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = figure("VmRSS")
    kept = grid._taken(grid._inbox.read(replies, tickets), uniform=True)
    return figure("VmHWM") - before, sum(not one.has_error() for one in kept)


grown = []
for side in (64, SIDE):  # the first loads what is needed
    local = LocalGrid(clients(NODES, CODED))
    grid = CompressedGrid(local, CODED)
    grown.append(exchange(grid, local, side, HOSTILE))
growth, taken = grown[1]
named = len({one.node for one in grid.rejections})
print(json.dumps({"growth": growth, "taken": taken, "named": named, "model": 4 * SIDE**2}))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's peak memory")
def test_a_hostile_round_grows_the_server_by_twice_the_honest_models_at_most() -> None:
    """64 nodes, 16 of them hostile, whose frames would unfold to gigabytes."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (seen["taken"], seen["named"]) == (48, 16)
    honest = 48 * seen["model"]
    assert 0.9 * honest < seen["growth"] <= 2 * honest
