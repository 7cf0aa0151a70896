"""`fewbits launch`: a worker is killed while the example trains, and takes part again."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLE = Path(__file__).parents[2] / "examples" / "ddp_survivors.py"
LAUNCH = [sys.executable, "-m", "fewbits.cli", "launch", "--json"]


def launch(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*LAUNCH, *words], capture_output=True, text=True, timeout=120)


@pytest.mark.soak
def test_a_killed_worker_takes_part_again() -> None:
    words = ("--workers", "3", "--restarts", "1", str(EXAMPLE), "--steps", "100000")
    running = subprocess.Popen(
        [*LAUNCH, *words, "--pause", "0.05"], stdout=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    assert running.stdout is not None
    reader = threading.Thread(
        target=lambda out: [lines.put(x) for x in out], args=(running.stdout,)
    )
    reader.start()
    pids: dict[int, int] = {}
    seen: list[int] = []  # how many workers took part, whenever that changed
    killed = False
    try:
        while seen != [3, 2, 3]:
            line = lines.get(timeout=120)
            if line.startswith("{"):
                event = json.loads(line)
                if event["event"] == "started":
                    pids[event["worker"]] = event["process"]
            elif found := re.search(r"(\d) workers", line):
                seen += [int(found[1])] * (not seen or seen[-1] != int(found[1]))
                if not killed:
                    os.kill(pids[2], signal.SIGKILL)
                    killed = True
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(60)
        reader.join(60)
        running.stdout.close()
    assert len(pids) == 3


def test_all_workers_end_with_the_same_model() -> None:
    done = launch("--workers", "2", str(EXAMPLE), "--steps", "5", "--pause", "0")
    assert done.returncode == 0, done.stderr
    ends = re.findall(r"ends with (\S+), lost 0", done.stdout)
    assert len(ends) == 2
    assert len(set(ends)) == 1
    codes = [json.loads(line) for line in done.stdout.splitlines() if '"ended"' in line]
    assert [each["code"] for each in codes] == [0, 0]


def test_workers_that_all_fail_are_an_error(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("import sys\nsys.exit(3)\n")
    done = launch("--workers", "2", "--restarts", "1", str(script))
    assert done.returncode == 1
    assert "none of 2 workers has ended well" in done.stderr
    assert done.stdout.count('"started"') == 3


def test_bad_options_are_one_line() -> None:
    for words in (("--store", "nowhere"), ("--restarts", "-1"), ("--port", "-5")):
        done = launch("--workers", "1", *words, str(EXAMPLE))
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_a_terminated_launcher_ends_its_workers(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import time\ntime.sleep(600)\n")
    running = subprocess.Popen(
        [*LAUNCH, "--workers", "2", str(script)], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    pids = [json.loads(running.stdout.readline())["process"] for _ in range(2)]
    running.terminate()
    running.wait(60)
    running.stdout.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
