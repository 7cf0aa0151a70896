"""`fewbits train` as a user runs it: real workers, real sockets, on scikit-learn's digits."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fewbits.cli import PROGRAM, main
from fewbits.errors import PeerError, SpecError
from fewbits.train import compare, launcher, settings
from printed import check_nodes

pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("safetensors")

JOB = (sys.executable, "-m", "fewbits.train")
OPTIONS = ("--json", "--workers", "2", "--seed", "3")
TIMEOUT = 240


def train(*arguments: str) -> dict:
    done = subprocess.run(
        [*JOB, *OPTIONS, *arguments], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """Two operators for two epochs: what most tests look at."""
    page = tmp_path_factory.mktemp("report") / "out.html"
    wanted = ("--operator", "none", "--operator", "natural", "--epochs", "2")
    return train(*wanted, "--report", str(page)), page


def test_every_operator_learns(compared: tuple[dict, Path]) -> None:
    document, _ = compared
    assert [run["operator"] for run in document["runs"]] == ["none", "natural"]
    for run in document["runs"]:
        assert run["accuracy"] > 0.5  # chance is 0.1
        assert run["curve"][-1]["loss"] < 0.5 * run["curve"][0]["loss"]
        assert run["replicas_agree"]


def test_runs_start_from_the_same_parameters_and_batches(compared: tuple[dict, Path]) -> None:
    none, natural = compared[0]["runs"]
    # The first loss is computed before any gradient was exchanged.
    assert none["curve"][0]["loss"] == natural["curve"][0]["loss"]
    assert none["parameters_sha256"] != natural["parameters_sha256"]


def test_bytes_are_counted_and_almost_all_elements_compressed(compared: tuple[dict, Path]) -> None:
    none, natural = compared[0]["runs"]
    assert none["bytes_kind"] == "estimated"
    assert none["bytes_per_step"] == 4 * compared[0]["parameters"]  # 2 (n - 1) / n is 1
    assert natural["bytes_kind"] == "measured"
    assert natural["compressed_share"] > 0.95
    # 9 of 32 bits, the few exact elements and headers.
    assert 3.2 < natural["ratio"] < 32 / 9
    assert natural["ratio"] == pytest.approx(none["bytes_per_step"] / natural["bytes_per_step"])
    assert "fewer bytes" in natural["verdict"]


def test_a_step_is_the_sum_of_its_parts(compared: tuple[dict, Path]) -> None:
    for run in compared[0]["runs"]:
        ms = run["step_ms"]
        assert min(ms.values()) >= 0
        assert ms["compute"] + ms["codec"] + ms["wire"] == pytest.approx(ms["total"])
    assert compared[0]["runs"][1]["busy_ms"]["codec"] > 0


def test_the_report_is_written_beside_its_numbers(compared: tuple[dict, Path]) -> None:
    document, page = compared
    assert json.loads(page.with_suffix(".json").read_text()) == document
    text = page.read_text()
    for run in document["runs"]:
        assert f"{100 * run['accuracy']:.1f} %" in text


@pytest.mark.soak  # the gate forks its ranks, which is quicker: distributed/test_train
def test_workers_in_nodes_compress_between_nodes_only() -> None:
    wanted = ("--operator", "none", "--operator", "natural", "--epochs", "1", "--workers", "4")
    document = train(*wanted, "--nodes", "2", "--model", "mlp")
    check_nodes(document)


def test_the_same_program_runs_under_torchrun() -> None:
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    wanted = ("--epochs", "1", "--operator", "none", "--operator", "fp16-hook")
    done = subprocess.run(
        [sys.executable, *command, "-m", "fewbits.train", *wanted],
        capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("digits, cnn") == 1  # rank 0 alone speaks
    assert "fp16-hook: sent about 2.0× fewer bytes" in done.stdout


def test_a_killed_rank_ends_the_run_with_one_line() -> None:
    job = subprocess.Popen(
        [*JOB, "--operator", "none", "--epochs", "500"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stderr is not None
    while "epoch 1/" not in job.stderr.readline():
        assert job.poll() is None
    ranks = children(job.pid)
    os.kill(ranks[1], signal.SIGKILL)
    _, errors = job.communicate(timeout=60)
    assert job.returncode == 1
    assert "Traceback" not in errors
    assert errors.strip().split("\n")[-1] == "fewbits: none: rank 1 was ended by SIGKILL"
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("this system does not list a process's children")
    return sorted(map(int, path.read_text().split()))


SCRIPT = """
import json, os, sys, time
rank = int(os.environ["RANK"])
def say(**event): print(json.dumps(event), flush=True)
"""


def launch(script: str, on_event=lambda event: None) -> list[dict]:
    return launcher.launch([sys.executable, "-c", SCRIPT + script], 2, on_event)


def test_the_launcher_hands_on_events_and_returns_the_result() -> None:
    events: list[dict] = []
    results = launch(
        "say(event='step', n=1); print('noise'); [say(event='result', n=n) for n in (2, 3)]",
        events.append,
    )
    assert events == [{"event": "step", "n": 1}, *results]
    assert results == [{"event": "result", "n": 2}, {"event": "result", "n": 3}]


def test_the_failing_rank_is_named_with_its_last_line() -> None:
    began = time.monotonic()
    with pytest.raises(PeerError, match=r"^rank 1 failed: ValueError: no such luck$"):
        launch("if rank == 1: raise ValueError('no such luck')\ntime.sleep(60)")
    assert time.monotonic() - began < 30  # rank 0 was not waited for


def test_a_rank_that_refuses_its_input_is_the_callers_fault() -> None:
    with pytest.raises(SpecError, match=r"^bad data$"):
        launch("print('fewbits: bad data', file=sys.stderr); sys.exit(2)")


def test_ranks_without_a_result_are_a_failure() -> None:
    with pytest.raises(PeerError, match="without a result"):
        launch("pass")


def test_ctrl_c_ends_all_ranks() -> None:
    pids: list[int] = []

    def interrupt(event: dict) -> None:
        pids.append(event["pid"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch("say(event='step', pid=os.getpid()); time.sleep(60)", interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--operator", "nonsense"),
        ("--no-such-option",),
        ("--workers", "many"),
        ("--collective", "ring"),
        ("--feedback", "nonsense"),
        ("--operator", "natural", "--feedback", "ef14:momentum=0.9"),
        ("--operator", "none", "--operator", "sign", "--feedback", "diana"),
        ("--operator", "natural", "--downlink", "sign", "--feedback", "diana"),
        ("--operator", "tiny", "--feedback", "ef14"),
        ("--data", "/does/not/exist"),
        ("--outer", "nesterov"),
        ("--local-steps", "0"),
        ("--local-steps", "4", "--outer", "adam"),
        ("--local-steps", "4", "--operator", "fp16-hook"),
        ("--local-steps", "4", "--operator", "auto"),
        ("--local-steps", "4", "--feedback", "dgc", "--momentum", "0", "--outer", "nesterov"),
        ("--link", "fast"),
        ("--link", "1kbit"),
        ("--link", "100Mbit", "--workers", "300", "--batch-size", "300"),
        ("--link", "100Mbit", "--collective", "switch"),
        ("--nodes", "3", "--workers", "4"),
        ("--nodes", "0"),
        ("--nodes", "2", "--collective", "star"),
        ("--nodes", "2", "--local-steps", "4"),
        ("--report", "page.txt"),
        ("--report", "/does/not/exist/page.html"),
        ("--checkpoint", __file__),
        ("--checkpoint", f"{__file__}/inside"),
    ],
)
def test_bad_arguments_give_one_line_and_exit_code_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("fewbits: ")
    assert said.err.count("\n") == 1


def test_bad_data_found_by_a_worker_gives_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"not idx")
    done = subprocess.run(
        [*JOB, "--data", str(tmp_path), "--operator", "none"],
        capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 2
    assert "is not an idx file" in done.stderr.strip().split("\n")[-1]
    assert "Traceback" not in done.stderr


def command(*arguments: str) -> argparse.Namespace:
    return PROGRAM.parser("train").parse_args(["train", *arguments])


def test_the_command_exits_with_1_where_a_run_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare, "run", lambda chosen: (None, PeerError("none: rank 1 failed")))
    assert main(["train"]) == 1
    assert capsys.readouterr().err == "fewbits: none: rank 1 failed\n"


def test_old_names_of_options_work_and_warn_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen: list[settings.TrainSettings] = []
    monkeypatch.setattr(compare, "run", lambda given: (chosen.append(given), None))
    assert main(["train", "--master", "sign", "--scheme", "star"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "fewbits: warning: --master is now --downlink, the old name will go",
        "fewbits: warning: --scheme is now --collective, the old name will go",
    ]
    assert main(["train", "--downlink", "sign", "--collective", "star"]) == 0
    assert main(["train", "--uplink", "sign"]) == 0
    assert capsys.readouterr().err == ""
    assert chosen[0] == chosen[1]
    assert chosen[2].operators == ("sign",)


def test_the_report_needs_no_other_process(
    compared: tuple[dict, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compare, "run", lambda chosen: (compared[0], None))
    monkeypatch.setattr(subprocess, "Popen", None)
    assert main(["train", "--report", str(tmp_path / "out.html")]) == 0
    assert (tmp_path / "out.html").read_bytes() == compared[1].read_bytes()


def test_the_command_prints_the_table_and_the_verdicts(
    compared: tuple[dict, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(compare, "run", lambda chosen: (compared[0], None))
    options = command()
    options.run(options)
    printed = capsys.readouterr().out
    natural = compared[0]["runs"][1]
    for text in (
        f"{100 * natural['accuracy']:.1f} %",
        f"{natural['ratio']:.2f}",
        natural["verdict"],
    ):
        assert text in printed
