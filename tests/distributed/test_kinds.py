"""Parameters of unusual kinds are averaged whole or refused by name, never in part."""

from collections.abc import Callable

import pytest
from launch import Launcher
from raised import SLACK, check_raised, others

SHAPES = [(200, 200), (201, 3), (7,), (1,)]
VALUES = sum(a * b for a, b in ((200, 200), (201, 3), (7, 1), (1, 1)))
ADAPTERS = ["ddp", "hook", "fsdp", "localsgd"]


@pytest.mark.parametrize(
    ("adapter", "dtype"), [*((each, "complex64") for each in ADAPTERS), ("fsdp", "complex128")]
)
def test_complex_gradients_are_averaged_whole(launcher: Launcher, adapter: str, dtype: str) -> None:
    options = {"adapter": adapter, "dtype": dtype, "shapes": SHAPES}
    exact = launcher.results("planes", uplink="identity", **options)
    steps = 1 if adapter == "localsgd" else 2
    whole = sum(result["count"] for result in exact)
    assert whole == steps * VALUES * (1 if adapter == "fsdp" else 2)
    for result in exact:
        assert result["worst"] < 1e-6
        assert result["elements"] == 2 * VALUES + (0 if adapter == "fsdp" else 11)
    lossy = launcher.results("planes", uplink="natural", **options)
    for result in lossy:  # of two roundings, each of which at most doubles a value
        assert 0.01 < result["worst"] < 3.0
    if adapter != "fsdp":
        assert len({result["digest"] for result in exact}) == 1
        assert len({result["digest"] for result in lossy}) == 1


@pytest.mark.parametrize(("adapter", "bag"), [("ddp", False), ("ddp", True), ("fsdp", False)])
def test_a_layer_with_sparse_gradients_is_refused_by_its_name(
    launcher: Launcher,
    adapter: str,
    bag: bool,
    record_property: Callable[[str, object], None],
) -> None:
    for outcome in launcher.run("sparse", adapter=adapter, bag=bag):
        assert outcome.error == "SpecError", outcome
        assert "deep.table" in outcome.message
        assert "sparse=False" in outcome.message
        assert "attached" not in outcome.result
    record_property("message", outcome.message)


def test_sparse_gradients_that_come_anyway_are_a_typed_error(launcher: Launcher) -> None:
    for outcome in launcher.run("sparse", adapter="hook"):
        assert outcome.error == "SpecError", outcome
        assert "sparse=False" in outcome.message
        assert outcome.result["attached"]


def test_rounds_exchange_what_sparse_gradients_have_changed(launcher: Launcher) -> None:
    one, other = launcher.results("sparse", adapter="localsgd")
    assert one["table"] == other["table"]


@pytest.mark.parametrize("adapter", ["ddp", "fsdp", "localsgd"])
def test_a_dtype_that_cannot_be_averaged_is_refused_by_name(
    launcher: Launcher, adapter: str
) -> None:
    for outcome in launcher.run("odd dtype", adapter=adapter, dtype="float8_e4m3fn"):
        assert outcome.error == "SpecError", outcome
        assert "1.odd" in outcome.message
        assert "float8_e4m3fn" in outcome.message


def test_a_frozen_parameter_may_have_any_dtype(launcher: Launcher) -> None:
    for adapter in ("ddp", "localsgd"):
        launcher.results("odd dtype", adapter=adapter, dtype="int32", trained=False)


def test_parameters_that_do_not_fill_their_bucket_are_refused(launcher: Launcher) -> None:
    both = launcher.run("short", culprits=[0, 1])  # nobody differs from the others
    check_raised(both, "SpecError", SLACK, naming="102 values", steps=None)
    outcomes = launcher.run("short", culprits=[1])
    check_raised(outcomes[1:], "SpecError", SLACK, naming="102 values", steps=None)
    check_raised(others(outcomes), "PeerError", SLACK, naming="rank 1 failed", steps=None)


@pytest.mark.parametrize("adapter", ["ddp", "fsdp", "localsgd"])
def test_a_second_attach_is_refused_before_any_rank_is_asked(
    launcher: Launcher, adapter: str, record_property: Callable[[str, object], None]
) -> None:
    for outcome in launcher.run("twice attached", adapter=adapter):
        assert outcome.error == "SpecError", outcome
        assert "already" in outcome.message
        assert "\n" not in outcome.message
        assert outcome.result["asked"] == 0
    record_property("message", outcome.message)


@pytest.mark.parametrize("adapter", ["fsdp", "localsgd"])
def test_a_closed_model_may_be_attached_again(launcher: Launcher, adapter: str) -> None:
    for outcome in launcher.run("twice attached", adapter=adapter, close=True):
        assert outcome.status == 0, outcome
        assert outcome.result["asked"] >= 1
