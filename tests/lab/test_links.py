"""The laboratory of links without links: what it reads, how it counts, what it keeps."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from fewbits.errors import SpecError
from fewbits.theory import quantities
from fewbits.theory.cost import TrainingJob
from fewbits_lab.links import figures, names, planned, relay, setting, steps
from fewbits_lab.links.laboratory import compare
from fewbits_lab.links.rank import reason
from fewbits_lab.links.setting import LinkSetting, ShapedLink
from fewbits_lab.links.store import LinkStore

SETTING = LinkSetting(1_000_000, 2, ShapedLink(1e8), repeats=3, warm_up=4)


def sample(seconds: float, sent: int, **others: float) -> dict:
    return {
        "seconds": seconds, "cpu_seconds": 0.1, "interface_bytes": sent + 10, "sent_bytes": sent,
        "codec_seconds": 0.02, "codec_cpu_seconds": 0.01, "wire_seconds": 0.3,
    } | others  # fmt: skip


def row(name: str, samples: list[float], status: str = "measured") -> dict:
    found = {"contender": name, "kind": names.kind(name), "status": status}
    if status == "measured":
        found |= {"samples": samples, "step_seconds": figures.times(samples)._asdict()}
    return found


def result(*contenders: str, **changed: object) -> dict:
    return {
        "params_asked": 1_000_000, "ranks": 2, "rate_bits_per_second": 1e8, "latency_seconds": 0.0,
        "loss": 0.0, "repeats": 3, "warm_up": 4,
        "contenders": [{"contender": name} for name in contenders],
    } | changed  # fmt: skip


def test_links_are_read_with_their_units() -> None:
    assert quantities.link_rate("100Mbit") == 1e8
    assert quantities.link_rate("none") is None
    assert setting.latency("5ms") == 0.005
    assert setting.latency("0") == 0
    assert setting.loss("0.1%") == pytest.approx(0.001)
    assert setting.loss("0.01") == 0.01
    assert str(ShapedLink(1e9, 0.005, 0.001)) == "1 Gbit/s, 5 ms, 0.1 % lost"
    assert str(ShapedLink(None)) == "unshaped"


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (quantities.link_rate, "fast"), (quantities.link_rate, "1bit"),
        (quantities.link_rate, "0Mbit"),
        (setting.latency, "5"), (setting.latency, "-1ms"), (setting.latency, "1min"),
        (setting.loss, "1"), (setting.loss, "60%"), (setting.loss, "-0.1"), (setting.loss, "few"),
    ],
)  # fmt: skip
def test_what_is_no_link_is_refused(read, text: str) -> None:
    with pytest.raises(SpecError):
        read(text)


def test_one_rank_needs_no_link() -> None:
    with pytest.raises(SpecError, match="ranks must be 2"):
        LinkSetting(1000, 1, ShapedLink(None), 1, 1)


def test_plain_and_compute_always_take_part() -> None:
    assert names.chosen(["natural", "compute", "natural"]) == ["none", "natural", "compute"]
    assert names.kind("natural:coder=rans") == names.kind("auto") == names.OURS
    assert names.kind("powersgd:rank=2") == names.CHAINED
    with pytest.raises(SpecError, match="rank=N"):
        names.chosen(["powersgd:rank=few"])


def test_a_step_takes_as_long_as_its_slowest_rank() -> None:
    ranks = [
        {"samples": [sample(1, 100), sample(5, 100)], "sha256": "a", "warnings": []},
        {"samples": [sample(3, 300), sample(2, 300)], "sha256": "a", "warnings": []},
    ]
    found = figures.of_contender(ranks)
    assert found["samples"] == [3, 5]
    assert found["step_seconds"] == {"median": 4, "low": 3.5, "high": 4.5}
    assert found["reported_bytes"] == {"mean": 200, "busiest": 300}
    assert found["interface_bytes"] == {"mean": 210, "busiest": 310}
    assert found["codec_seconds"] == pytest.approx(0.02)
    assert found["replicas_agree"]
    ranks[1]["sha256"] = "b"
    found = figures.of_contender(ranks)
    assert not found["replicas_agree"]
    assert found["parameters_sha256"] is None


def test_intervals_hold_the_ratio_and_know_of_rounds() -> None:
    disturbance = np.random.default_rng(1).uniform(1, 3, 15)  # of whole rounds
    own = figures.ratio(2 * disturbance, disturbance)
    assert own.value == own.low == own.high == pytest.approx(2)
    noise = np.random.default_rng(2).uniform(0.9, 1.1, (2, 15))
    own = figures.ratio(2 * noise[0], noise[1])
    assert own.low < own.value < own.high
    assert own.low < 2 < own.high
    assert own.high - own.low < 0.5


def test_plans_are_those_of_the_measured_link_and_codecs() -> None:
    inputs = {
        "link": {"bandwidth_bits_per_second": 1e8, "latency_seconds": 0.0},
        "codecs": {
            "natural": {
                "bits_per_value": 9,
                "encode_values_per_second": 1.5e8,  # 1.5 encodings of every value on two ranks
                "decode_values_per_second": 2e8,
            }
        },
    }
    found = planned.step_seconds(inputs, TrainingJob(10_000_000, 2, 0.1))
    assert found == {"none": pytest.approx(3.3), "natural": pytest.approx(0.1 + 0.9 + 0.1 + 0.1)}


def test_everyone_is_compared_with_plain_and_the_better_cast() -> None:
    rows = [
        row("none", [4.0, 4.0]), row("fp16-hook", [2.0, 2.0]), row("bfloat16", [3.0, 3.0]),
        row("natural", [1.0, 1.0]), row("quantization-hook", [], "broken"), row("compute", [0.5]),
    ]  # fmt: skip
    assert compare(rows) == "fp16-hook"
    assert rows[3]["times_plain"]["value"] == 4
    assert rows[3]["times_cast"]["value"] == 2
    assert rows[5]["times_plain"] is None
    assert "times_plain" not in rows[4]


def test_results_are_found_again_and_replaced(tmp_path: Path) -> None:
    store = LinkStore(tmp_path / "new")
    assert store.find(SETTING, ["none"]) is None
    store.add(result("none", "natural"))
    store = LinkStore(tmp_path / "new")
    assert store.find(SETTING, ["natural", "none"]) is not None
    assert store.find(SETTING, ["none", "tiny"]) is None
    assert store.find(LinkSetting(1_000_000, 2, ShapedLink(1e8), 7, 4), ["none"]) is None
    assert store.find(LinkSetting(1_000_000, 2, ShapedLink(None), 3, 4), ["none"]) is None
    store.add(result("none", rate_bits_per_second=None))
    store.add(result("none", "tiny"))
    kept = json.loads((tmp_path / "new" / "results.json").read_text())["settings"]
    assert [own["rate_bits_per_second"] for own in kept] == [None, 1e8]
    assert store.find(SETTING, ["tiny"]) is not None


@pytest.mark.parametrize("text", ["[]", "{}", '{"kind": "other", "version": 1}', "no"])
def test_files_of_others_are_not_overwritten(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(SpecError, match=r"results\.json"):
        LinkStore(tmp_path)


def test_the_cause_of_a_hooks_failure_is_one_line() -> None:
    outer = "Got the following error when running the callback: "
    text = f"{outer}RuntimeError: {outer}IndexError: invalid index\n\nAt:\n  somewhere"
    assert reason(RuntimeError(text)) == "IndexError: invalid index"
    assert reason(ValueError("no")) == "ValueError: no"


def test_the_relay_sends_frames_where_their_address_says() -> None:
    devices = [11, 12, 13]
    notes = bytes(10)
    to_second = notes + bytes.fromhex(relay.address(2).replace(":", "")) + bytes(8)
    assert relay._targets(to_second, 11, devices) == [12]
    assert relay._targets(notes + b"\xff" * 6 + bytes(8), 12, devices) == [11, 13]
    assert relay._targets(notes + bytes.fromhex("02fb00000009"), 11, devices) == []
    assert relay._targets(b"short", 11, devices) == []


def test_the_picture_names_every_contender_and_why_one_is_missing() -> None:
    bars = [
        steps.StepBar("none", "plain", (2.0, 1.9, 2.2), 1.0),
        steps.StepBar("a<b", "fewbits", (1.0, 1.0, 1.0), 2.0),
        steps.StepBar("hook", "torch", None, note="does not run & why"),
    ]
    drawn = steps.figure(
        "Steps", [steps.StepPanel("1 Gbit/s", bars), steps.StepPanel("unshaped", bars)]
    )
    text = "".join(ElementTree.fromstring(drawn).itertext())
    for wanted in ("Steps", "1 Gbit/s", "unshaped", "a<b", "1 s, 2.00×", "does not run & why"):
        assert wanted in text


@pytest.mark.parametrize("params", [10_000, 500_000, 10_000_000])
def test_models_have_about_the_size_that_was_asked_for(params: int) -> None:
    pytest.importorskip("torch")
    from fewbits_lab.links import contenders

    assert contenders.parameters(contenders.widths(params)) == pytest.approx(params, rel=0.1)
