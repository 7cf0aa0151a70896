"""What compression between ranks chooses and says before any rank is met."""

import importlib
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import fewbits
from fewbits import SpecError, attached, ddp, presets
from fewbits.train import references

BIASED = (
    ("natural:rounding=nearest", "natural"),
    ("sign", "natural:coder=rans"),
    ("top-k|natural", "natural"),
    ("top-k:fraction=0.9999|natural:coder=rans", "natural:coder=rans"),
    ("hadamard|sparse-dithering", "natural:coder=rans"),
    ("sparse-dithering:coder=paper,block=512", "natural:coder=rans"),
)
UNBIASED = (
    "natural",
    "natural-dithering",
    "standard-dithering:p=2,levels=1",
    "sparse-dithering:rounding=subtractive",
    "hadamard|rand-k|natural",
)


@pytest.mark.parametrize(("uplink", "downlink"), BIASED)
def test_biased_operators_warn_and_the_mean_goes_back_without_bias(
    uplink: str, downlink: str
) -> None:
    with pytest.warns(UserWarning, match="is biased and nothing corrects it"):
        assert ddp.Compression(uplink).session.routing.downlink.spec == downlink


@pytest.mark.parametrize("uplink", UNBIASED)
def test_unbiased_operators_go_both_ways(uplink: str) -> None:
    assert ddp.Compression(uplink).session.routing.downlink.spec == uplink  # warnings are errors


@pytest.mark.parametrize("name", ["one-bit", "two-bit"])
def test_presets_of_few_bits_are_unbiased_both_ways_and_have_no_memory(name: str) -> None:
    routing = ddp.Compression(name).session.routing  # warnings are errors
    assert routing.uplink == routing.downlink
    assert routing.uplink.spec == presets.PRESETS[name].operator
    assert routing.uplink.guarantee(65_536).unbiased
    assert routing.feedback is None
    with pytest.raises(SpecError, match=f"'{name}' chooses feedback itself"):
        ddp.Compression(name, feedback="ef14")


@pytest.mark.parametrize(("name", "bits"), [("one-bit", 1), ("two-bit", 2)])
def test_presets_take_the_bits_of_their_names_on_a_gaussian_unit(name: str, bits: int) -> None:
    x = np.random.default_rng(5).standard_normal(65_536, np.float32)
    frame = fewbits.compress(x, presets.PRESETS[name].operator, seed=5)
    assert 8 * len(frame) / x.size == pytest.approx(bits, abs=0.02)
    error = np.sum((fewbits.decompress(frame) - x) ** 2) / np.sum(x**2)
    least = 1 / (4**bits - 1)  # of any unbiased operator
    assert least < error < 1.25 * least


def test_casts_are_not_worth_a_warning() -> None:
    with warnings.catch_warnings(action="error"):
        assert ddp.Compression("bfloat16").session.routing.downlink.spec == "bfloat16"


def test_what_no_large_tensor_can_have_is_refused_at_once() -> None:
    with pytest.raises(SpecError, match="coder=paper is for at most 4096 values"):
        ddp.Compression("sparse-dithering:coder=paper")


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("powersgd", "PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)"),
        ("powersgd:rank=2", "matrix_approximation_rank=2"),
        ("fp16-hook", "'float16'"),
        ("none", "leave `attach` out"),
    ],
)
def test_references_are_told_apart_from_operators(spec: str, line: str) -> None:
    for arguments in ((spec,), ("natural", spec)):
        with pytest.raises(SpecError) as raised:
            ddp.Compression(*arguments)
        assert line in str(raised.value)
        assert repr(spec) in str(raised.value)
        assert "\n" not in str(raised.value)


def test_every_reference_of_train_is_one() -> None:
    assert set(presets.REFERENCES) == {references.PLAIN_DDP, references.FP16, references.POWERSGD}


def test_a_reference_of_train_is_refused_with_the_line_to_write(
    record_property: Callable[[str, object], None],
) -> None:
    with pytest.raises(SpecError) as raised:
        ddp.Compression("powersgd:rank=4")
    record_property("message", str(raised.value))
    line = str(raised.value).partition("write model.")[2].partition(", both from")[0]
    assert line.startswith("register_comm_hook(PowerSGDState(")
    module = str(raised.value).rpartition(" ")[2]
    assert {"PowerSGDState", "powerSGD_hook"} <= set(dir(importlib.import_module(module)))


NAMES = [("body.0.weight", torch.zeros(200, 200)), ("head.weight", torch.zeros(3, 200))]


@pytest.mark.parametrize("pattern", ["haed.*", "body.weight", "BODY*"])
def test_a_pattern_that_matches_nothing_is_refused_with_near_names(pattern: str) -> None:
    with pytest.raises(SpecError) as raised:
        ddp.Compression("natural", names=NAMES, policy={pattern: "exact"})
    assert repr(pattern) in str(raised.value)
    near = "head.weight" if pattern == "haed.*" else "body.0.weight"
    assert f"near names are {near}" in str(raised.value)
    assert "\n" not in str(raised.value)
    ddp.Compression("natural", policy={pattern: "exact"})  # no names are known yet


def test_patterns_that_match_are_taken() -> None:
    ddp.Compression("natural", names=NAMES, policy={"head.*": "exact", "*": "bfloat16"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: ddp.Compression("sign"),
        lambda: ddp.Compression(worker="natural"),  # type: ignore[call-arg]
    ],
    ids=["bias", "old name"],
)
def test_warnings_point_at_the_users_line(make: Callable[[], object]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
    assert [Path(each.filename).name for each in caught] == [Path(__file__).name]


class Scaler:
    """What a GradScaler is to a compression."""

    def __init__(self) -> None:
        self.scale = 8.0

    def get_scale(self) -> float:
        return self.scale

    def update(self, new: float) -> None:
        self.scale = new


def test_a_tracked_scaler_rescales_memories_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(ddp.Compression, "rescale", lambda self, factor: asked.append(factor))
    scaler, alone = Scaler(), Scaler()
    compression = ddp.Compression("natural", feedback="ef14")
    compression.track(scaler)
    ddp.Compression("natural").track(alone)  # without memories
    for new in (16.0, 16.0, 4.0):
        scaler.update(new)
        alone.update(new)
    assert asked == [2.0, 0.25]
    assert scaler.get_scale() == alone.get_scale() == 4.0
    with pytest.raises(SpecError, match="tracked already"):
        compression.track(scaler)
    with pytest.raises(SpecError, match="takes a GradScaler, got int"):
        compression.track(3)


class Compiled(torch.nn.Module):
    """What torch.compile makes of a module, for all that we look at."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._orig_mod = module


def test_a_compiled_model_is_known_by_its_own_names() -> None:
    net = torch.nn.Sequential(Compiled(torch.nn.Linear(2, 2)))
    assert attached.uncompiled(Compiled(Compiled(net))) is net
    assert attached.uncompiled(net) is net
    names = [attached.uncompiled_name(name) for name, _ in Compiled(net).named_parameters()]
    assert names == ["0.weight", "0.bias"]


def test_ranges_are_shown_while_a_profiler_runs() -> None:
    with attached.ranges("unseen"):
        pass
    found = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with found, attached.ranges("seen"):
        torch.ones(1)
    names = {event.key for event in found.key_averages()}
    assert "seen" in names
    assert "unseen" not in names
