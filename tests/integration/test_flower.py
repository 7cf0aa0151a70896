"""A real SuperLink and two SuperNodes on this machine, with bytes counted on the wire."""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean

import pytest

from fewbits_lab.results import results

pytestmark = pytest.mark.skipif(find_spec("flwr") is None, reason="needs fewbits[flower]")
APP = Path(__file__).resolve().parents[2] / "examples" / "flower"
VALUES = 1_000_000
PACKED, CODED = 3.4, 6.5  # times fewer bytes than uncompressed


def test_one_round_is_exact_down_and_compressed_up() -> None:
    from fewbits_lab.federation.measure import measure

    (run,) = measure(["natural"], rounds=1, timeout=300)
    assert run.first_exact
    assert run.in_step
    assert run.rejected == 0
    for node in run.rounds:
        assert 4 * VALUES < node.down < 1.05 * 4 * VALUES
        assert VALUES < node.up < 4 * VALUES / PACKED


@pytest.mark.soak
def test_four_rounds_send_and_receive_a_fraction_of_the_bytes() -> None:
    from fewbits_lab.federation.measure import measure

    plain, packed, coded = measure(["none", "natural", "natural:coder=rans"], rounds=4)
    for run, times in ((packed, PACKED), (coded, CODED)):
        assert run.first_exact
        assert run.in_step
        assert run.rejected == 0
        for one, full in zip(run.rounds, plain.rounds, strict=True):
            assert min(full.up, full.down) > 4 * VALUES
            assert one.up < full.up / times
            if one.round == 1:
                assert one.down > 4 * VALUES  # exact
            else:
                assert one.down < full.down / times


@pytest.mark.soak
def test_the_example_runs_on_a_superlink(tmp_path: Path) -> None:
    from fewbits_lab.federation.federation import Federation

    with Federation(tmp_path) as federation:
        log = federation.run(APP, {"num-server-rounds": 3}, timeout=400)
    assert learned(log) > 0.85
    assert "clients left out: 0" in log
    found = re.search(r"bytes: [\d,]+ down, [\d,]+ up, ([\d.]+) times fewer", log)
    assert found, log
    assert float(found[1]) > 1.5


@pytest.fixture
def local_superlink(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment in which `flwr run . here` simulates; ends what the simulation leaves."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        '[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = ":local:"\n'
        "options.num-supernodes = 2\n"
    )
    own = {
        "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    yield {**os.environ, **own}
    from fewbits_lab.federation.federation import end_all

    end_all(home)


@pytest.mark.soak
def test_the_example_runs_in_simulation(local_superlink: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        ["flwr", "run", str(APP), "here", "--stream"],
        env=local_superlink, cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert learned(done.stdout + done.stderr) > 0.85


@pytest.mark.soak
def test_hostile_clients_on_real_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen attacks through a SuperLink: the weights are those of the honest alone."""
    from flwr.supercore.task_identity import TaskIdentity

    from fewbits_lab.federation.federation import Federation
    from integration import hostile_federation as hostile
    from unit.flower.federation import Client, LocalGrid

    monkeypatch.setenv("PYTHONPATH", str(APP.parents[1] / "tests"))
    app, out = tmp_path / "app", tmp_path / "seen.json"
    app.mkdir()
    (app / "pyproject.toml").write_text(hostile.PROJECT)
    (app / "hostile.py").write_text(hostile.MODULE)
    nodes = hostile.HONEST + hostile.HOSTILE
    with Federation(tmp_path / "federation", nodes) as federation:
        log = federation.run(app, {"out": str(out)}, timeout=600)
    assert out.exists(), log[-3000:]
    seen = json.loads(out.read_text())
    named = {node for _, node, _ in seen["rejected"]}
    assert len(named) == hostile.HOSTILE
    assert sorted(exchange for exchange, _, _ in seen["rejected"]) == sorted(
        2 * list(range(1, hostile.ROUNDS * 2, 2))
    )

    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    local = LocalGrid([Client(node, []) for node in set(seen["nodes"]) - named])
    for one in local.clients.values():
        one.app = hostile.client()
        one.context.node_config["partition-id"] = 0
    _, arrays = hostile.run(local, hostile.HONEST)
    assert {name: array.data.hex() for name, array in arrays.items()} == seen["arrays"]


def learned(log: str) -> float:
    """The accuracy after the last round."""
    found = [float(line.split()[-1]) for line in log.splitlines() if "test accuracy" in line]
    assert len(found) == 4, log[-2000:]
    assert found[0] < 0.5
    return found[-1]


def test_the_example_learns_in_one_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from flwr.app import Context, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    monkeypatch.syspath_prepend(str(APP))
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "unit" / "flower"))
    for name in ("model", "client_app", "server_app"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    client, server = (importlib.import_module(name) for name in ("client_app", "server_app"))
    grid_module = importlib.import_module("federation")
    config = {"num-server-rounds": 3, "local-epochs": 2, "learning-rate": 0.1}

    class Node(grid_module.Client):  # type: ignore[name-defined]
        def __init__(self, number: int) -> None:
            super().__init__(number, [])
            own = {"partition-id": number - 1, "num-partitions": 2}
            self.app, self.context = client.app, Context(1, number, own, RecordDict(), config)

    local = grid_module.LocalGrid([Node(1), Node(2)])
    server.main(local, Context(1, 0, {}, RecordDict(), config))
    assert learned(capsys.readouterr().out) > 0.85
    first, last = local.down[0], local.down[-1]
    assert grid_module.data_bytes(last) < grid_module.data_bytes(first) / 2


def test_the_page_shows_the_recorded_bytes() -> None:
    """Means of the nodes; of rounds 2 to 4 also the mean, and the least ratio of all."""
    root = Path(__file__).resolve().parents[2]
    rows = results("flower")["rows"]
    assert {row["values"] for row in rows} == {VALUES}
    assert all(row["in_step"] for row in rows)
    page = (root / "docs" / "flower.md").read_text()
    readme = " ".join((root / "README.md").read_text().split())
    said = {"natural": "", "none": "first broadcast is exact"}
    said["natural:coder=rans"] = "{0:.1f} times fewer TCP bytes up and {1:.1f} times fewer down"
    for operator, times in (("none", 1), ("natural", PACKED), ("natural:coder=rans", CODED)):
        cells = [
            f"{fmean(bytes_of(rows, operator, way, rounds)):,.0f}"
            for rounds in ((1,), (2, 3, 4))
            for way in ("up", "down")
        ]
        ratios = {
            way: min(
                full / own
                for full, own in zip(
                    bytes_of(rows, "none", way, (2, 3, 4)),
                    bytes_of(rows, operator, way, (2, 3, 4)),
                    strict=True,
                )
            )
            for way in ("up", "down")
        }
        assert min(ratios.values()) >= times
        assert said[operator].format(*ratios.values()) in readme
        shown = [f"{ratio:.2f}" for ratio in ratios.values()] if times > 1 else ["", ""]
        assert f"| `{operator}` | {' | '.join(cells + shown)} |".replace("`none`", "none") in page


def bytes_of(
    rows: list[dict[str, object]], operator: str, way: str, rounds: tuple[int, ...]
) -> list[int]:
    return [row[way] for row in rows if row["operator"] == operator and row["round"] in rounds]
