"""Comparisons on a link: the model of the wire, the table and the last lines."""

from collections.abc import Callable

import pytest

from fewbits.cli import main
from fewbits.errors import SpecError
from fewbits.train import compare, emulated, links, summary, table
from fewbits.train.emulated import EmulatedLinks
from fewbits.train.history import Epoch, History
from fewbits.train.results import of_run

LINK = {"bits_per_second": 1e8, "text": "100 Mbit/s", "kind": "emulated", "why_not_emulated": None}


def run(operator: str, total: float, **changed: object) -> dict:
    return {
        "operator": operator, "accuracy": 0.97, "loss": 0.1, "bytes_kind": "measured",
        "bytes_per_step": 4e6, "ratio": 1.0, "steps": 10, "seconds": total / 100, "warnings": [],
        "verdict": "as it is", "curve": [{"step": 10, "loss": 0.1, "bytes": 4e7, "seconds": 1.0}],
        "step_ms": {"total": total, "compute": 10.0, "codec": 0.0, "wire": total - 10.0},
        "busy_ms": {"codec": 0.0, "wire": 0.0}, "compressed_share": 1.0, "auto": None,
    } | changed  # fmt: skip


def document(**changed: object) -> dict:
    return {
        "data": "digits", "parameters": 1_000_000, "test_samples": 400, "link": LINK,
        "settings": {"model": "mlp", "workers": 2, "epochs": 6, "batch_size": 64, "seed": 0},
        "runs": [
            run("none", 800.0),
            run("fp16-hook", 400.0),
            run("natural:coder=rans", 100.0, accuracy=0.965),
            run("auto", 90.0, auto={"chosen": "natural:coder=rans", "step": 7}),
        ],
        "loopback": [
            run("none", 20.0),
            run("natural", 26.0, bytes_per_step=1e6),
            run("natural:coder=rans", 40.0, bytes_per_step=0.5e6),
        ],
    } | changed  # fmt: skip


def test_the_summary_says_how_much_sooner_how_accurate_and_where_not() -> None:
    gain, accuracy, auto, ends, loopback = summary.lines(document())
    assert "100 Mbit/s a step with natural:coder=rans is 8.0× as fast as plain DDP" in gain
    assert "10 steps in 1.0 s instead of 8.0 s; 4.0× as fast as fp16-hook" in gain
    assert "96.5 % against 97.0 %: -0.5 ±" in accuracy
    assert "400 test samples cannot tell them apart" in accuracy
    assert auto == "auto chose natural:coder=rans after 7 of 10 steps."
    assert "natural:coder=rans does not pay from about 1.4 Gbit/s on" in ends  # 3.5 MB in 20 ms
    assert "natural does not pay from about 4 Gbit/s on" in ends  # 3 MB in 6 ms
    assert "40.0 ms with natural:coder=rans and 20.0 ms without: do not compress" in loopback


@pytest.mark.parametrize(("worked", "told"), [(None, False), (9.0, False), (4.0, True)])
def test_the_summary_says_when_processors_were_shared(worked: float | None, told: bool) -> None:
    shared = run("none", 800.0, busy_ms={"codec": 0.0, "wire": 0.0, "compute": worked})
    words = " ".join(summary.lines(document(runs=[shared, run("natural", 100.0)])))
    assert ("computed for 10.0 ms, of which a processor worked 4.0 ms" in words) == told
    assert ("were shared" in words) == told


def test_the_summary_tells_a_loss_of_accuracy() -> None:
    worse = document(runs=[run("none", 800.0), run("natural", 100.0, accuracy=0.5)])
    assert "400 test samples tell them apart" in summary.lines(worse)[1]


@pytest.mark.parametrize(
    "changed",
    [
        {"runs": [run("none", 800.0)]},
        {"runs": [run("natural", 800.0)]},
        {"runs": [run("none", 800.0), run("natural", 100.0, loss=None)]},
    ],
)
def test_without_a_comparison_there_is_no_summary(changed: dict) -> None:
    assert summary.lines(document(**changed)) == []


def test_a_link_with_no_end_of_its_gain_is_not_given_one() -> None:
    faster = [run("none", 20.0), run("natural", 15.0, bytes_per_step=1e6)]
    runs = [run("none", 800.0), run("natural", 100.0)]
    *_, ends, loopback = summary.lines(document(runs=runs, loopback=faster))
    assert "could be measured" in ends
    assert "even there it gains" in loopback


def test_rows_of_the_loopback_stand_last() -> None:
    lines = table.render(document()).splitlines()
    place = lines.index("not shaped, the loopback of this machine, one epoch:")
    assert lines[place - 1].startswith("auto")
    assert lines[place - 2].endswith("8.00×")
    assert [line.split()[0] for line in lines[place + 1 : place + 4]] == [
        "none", "natural", "natural:coder=rans"
    ]  # fmt: skip
    assert lines[place + 3].endswith("0.50×")
    assert "2 workers on emulated links of 100 Mbit/s each way" in lines[1]


def test_the_modelled_wire_is_bytes_over_the_rate_and_marked() -> None:
    measured = run("natural", 26.0, bytes_per_step=1e6, busy_ms={"codec": 5.0, "wire": 9.0})
    made = links.on_link(measured, 1e8)
    assert made["step_ms"] == {"total": 95.0, "compute": 10.0, "codec": 5.0, "wire": 80.0}
    assert made["seconds"] == pytest.approx(0.26 * 95 / 26)
    assert made["curve"][0]["seconds"] == pytest.approx(95 / 26)
    assert measured["step_ms"]["total"] == 26.0
    chosen = links.on_link(run("auto", 26.0, auto={"chosen": "none", "step": 3}), 1e8)
    assert chosen["warnings"] == ["none was chosen for the loopback, not for this link"]
    link = LINK | {"kind": "modelled", "why_not_emulated": "tc is missing"}
    shown = table.render(document(runs=[run("none", 330.0), made], link=link, loopback=[measured]))
    assert "95.0*" in shown
    assert "80.0*" in shown
    assert "26.0*" not in shown


def test_the_ranks_of_a_node_share_its_link(monkeypatch: pytest.MonkeyPatch) -> None:
    class Laid:
        def __init__(self, rate: float, ranks: int) -> None:
            self.ranks = ranks

        def inside(self, rank: int) -> tuple[str, ...]:
            assert rank < self.ranks
            return (f"in {rank}",)

        def address(self, rank: int) -> str:
            return f"address {rank}"

        def close(self) -> None:
            pass

    monkeypatch.setattr(links, "EmulatedLinks", Laid)
    with links.opened("100Mbit", 6, sharing=3) as meeting:
        assert [meeting.inside(rank) for rank in range(6)] == [("in 0",)] * 3 + [("in 1",)] * 3
        assert meeting.master == "address 0"


@pytest.mark.parametrize("missing", ["unshare", "nsenter", "ip", "tc"])
def test_a_missing_program_is_named_with_its_package(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulated.sys, "platform", "linux")
    monkeypatch.setattr(
        emulated.shaping, "found", lambda name: None if name == missing else f"/bin/{name}"
    )
    with pytest.raises(SpecError, match=f"^{missing} is missing: apt install "):
        EmulatedLinks(1e8, 2)
    with links.opened("100Mbit", 2) as meeting:
        assert meeting.link["kind"] == "modelled"
        assert missing in meeting.link["why_not_emulated"]
        assert meeting.inside(1) == ()


def test_without_tc_the_wire_is_modelled_and_both_streams_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")

    def launched(command: list[str], _: int, on_event: Callable, *__: object) -> None:
        assert "--link" not in command  # ranks have no business with it
        for operator in ("none", "natural"):
            assert operator in command
            measured = run(operator, 20.0, bytes_per_step=4e6 if operator == "none" else 1e6)
            about = {"data": "digits", "parameters": 10, "test_samples": 400}
            on_event({"event": "result", "run": measured, **about})

    monkeypatch.setattr(emulated.shaping, "found", lambda name: None)
    monkeypatch.setattr(compare.launcher, "launch", launched)
    wanted = ["--link", "10Mbit", "--operator", "none", "--operator", "natural"]
    assert main(["train", *wanted]) == 0
    said = capsys.readouterr()
    assert said.err.startswith(
        "fewbits: no link of 10 Mbit/s can be emulated here, so its time is modelled (unshare is "
    )
    for text in (
        "modelled links of 10 Mbit/s",
        "3200.0*",
        "* modelled:",
        "On a link of 10 Mbit/s (modelled) a step with natural is 4.0× as fast as plain DDP",
    ):
        assert text in said.out


def test_a_rank_of_torchrun_has_a_network_already(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["train", "--link", "100Mbit"]) == 2
    assert "--link is for workers of this machine" in capsys.readouterr().err


def test_a_system_without_namespaces_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated.sys, "platform", "darwin")
    with pytest.raises(SpecError, match="darwin"):
        EmulatedLinks(1e8, 2)


@pytest.mark.parametrize("link", [None, "none"])
def test_without_a_link_ranks_meet_on_the_loopback(link: str | None) -> None:
    with links.opened(link, 2) as meeting:
        assert meeting == links.Meeting()
        assert meeting.environment()["MASTER_ADDR"] == "127.0.0.1"


def history(decided: int | None) -> History:
    """Three epochs of two steps; the last is five times as fast and half of it is coding."""
    epochs = [Epoch(1.0, 1.0, 0.9, 10.0 * n, 40.0 * n, 0.0, 4.0 * n) for n in (1, 2)]
    epochs.append(Epoch(1.0, 1.0, 0.9, 30.0, 120.0, 0.5, 8.5))
    auto = None if decided is None else {"chosen": "natural", "step": decided}
    return History([1.0] * 6, [5.0] * 4 + [1.0] * 2, [4.0] * 4 + [0.5] * 2, epochs, {"auto": auto})


def test_a_typical_step_of_auto_is_one_after_its_choice() -> None:
    settled = of_run(history(3), {})["step_ms"]
    assert settled == {"total": 1e3, "compute": 500.0, "codec": 250.0, "wire": 250.0}
    for decided in (None, 6):  # no auto; or still trying in the last epoch
        assert of_run(history(decided), {})["step_ms"]["total"] == 5e3
