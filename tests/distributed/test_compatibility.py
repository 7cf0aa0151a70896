"""Training loops as users write them work as they do without compression.

`tests/compatibility.toml` has the rows of the page, each with the test that proves it.
"""

from collections.abc import Callable
from typing import Any

import pytest
from launch import Launcher

COMPILED = ("torch.compile before DDP", "torch.compile after DDP")
LOOPS = (
    "gradient accumulation",
    "frozen, then unfrozen",
    "tied weights",
    "gradient clipping",
    "AMP bfloat16",
    "GradScaler",
    "LoRA",
    "MoE",
    "GAN",
    "LBFGS",
    "torch.save",
    "torch.save of the whole model",
    "DCP",
)
Found = list[dict[str, Any]]
_KEPT: dict[tuple[str, ...], Found] = {}


@pytest.fixture(scope="module")
def ran(launcher: Launcher) -> Callable[[str], Found]:
    """What both ranks found in a row; rows of a group run one after the other, once."""

    def found(row: str) -> Found:
        group = next((own for own in (COMPILED, LOOPS) if row in own), (row,))
        if group not in _KEPT:
            _KEPT[group] = launcher.results("loops", rows=group, deadline=240)
        return [result[row] for result in _KEPT[group]]

    return found


def check(both: Found) -> dict[str, Any]:
    """The identity has the bits of plain DDP; `natural` has others, on both ranks the same."""
    first, second = both
    for how in ("plain", "identity", "natural"):
        assert first[how]["final"] == second[how]["final"], how
    assert first["identity"]["final"] == first["plain"]["final"]
    assert first["natural"]["final"] != first["plain"]["final"]
    assert min(first["natural"]["ratios"]) > 1
    return first["natural"]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(COMPILED[0], marks=pytest.mark.soak),
        COMPILED[1],
        "gradient accumulation",
        "tied weights",
        "MoE",
        "GAN",
    ],
)
def test_a_loop_trains_as_without(ran: Callable[[str], Found], row: str) -> None:
    check(ran(row))


@pytest.mark.soak
def test_a_model_compiled_by_inductor_trains(ran: Callable[[str], Found]) -> None:
    check(ran("torch.compile by inductor"))


def test_compiling_changes_no_name_and_so_no_bit(ran: Callable[[str], Found]) -> None:
    names = ran("torch.compile before DDP")[0]["natural"]["names"]
    assert "second.weight" in names
    assert not [name for name in names if "_orig_mod" in name]
    finals = {ran(row)[0]["natural"]["final"] for row in COMPILED}
    assert len(finals) == 1


def test_a_layer_that_is_unfrozen_is_trained_from_then_on(ran: Callable[[str], Found]) -> None:
    assert check(ran("frozen, then unfrozen"))["moved"]


def test_clipping_sees_the_norm_of_the_mean_on_every_rank(ran: Callable[[str], Found]) -> None:
    both = ran("gradient clipping")
    norms = check(both)["norms"]
    assert norms == both[1]["natural"]["norms"]
    assert min(norms) > 0.05
    assert norms[0] == pytest.approx(both[0]["plain"]["norms"][0], rel=0.1)


def test_autocast_to_bfloat16_trains(ran: Callable[[str], Found]) -> None:
    check(ran("AMP bfloat16"))


def test_memories_follow_the_scale_of_a_tracked_grad_scaler(ran: Callable[[str], Found]) -> None:
    natural = check(ran("GradScaler"))
    assert natural["scale"] == 256.0 * 2**5
    assert natural["same"]  # as without a scale, bit for bit: the scales are powers of two


def test_small_tensors_of_lora_are_told_and_cured(
    ran: Callable[[str], Found], record_property: Callable[[str, object], None]
) -> None:
    both = ran("LoRA")
    natural = check(both)
    (message,) = natural["warned"]
    assert message.startswith(
        "0 % of 4,096 values are compressed: 4,096 go exact (under 16384 elements); "
        "policy=fewbits.policy.Default(small=1024) compresses 100 %"
    )
    assert natural["at"] == ["loops.py"]
    assert not both[1]["natural"]["warned"]  # once, not once a rank
    assert natural["share"] == 1.0
    record_property("message", message)


def test_lbfgs_calls_its_closure_alike_on_all_ranks(ran: Callable[[str], Found]) -> None:
    check(ran("LBFGS"))


@pytest.mark.parametrize("row", ["torch.save", "DCP"])
def test_a_saved_run_goes_on_as_if_it_had_not_ended(ran: Callable[[str], Found], row: str) -> None:
    both = ran(row)
    check(both)
    for result in both:
        for how in ("plain", "identity", "natural"):
            assert result[how]["final"] == result[how]["uninterrupted"], how


def test_a_wrapped_model_is_not_pickled(
    ran: Callable[[str], Found], record_property: Callable[[str, object], None]
) -> None:
    message = check(ran("torch.save of the whole model"))["message"]
    assert "model.module.state_dict()" in message
    assert "\n" not in message
    record_property("message", message)


def test_the_trainer_of_hugging_face_trains_saves_and_resumes(launcher: Launcher) -> None:
    pytest.importorskip("transformers")
    first, second = launcher.results("hugging face", deadline=240)
    for how in ("plain", "identity", "natural", "resumed"):
        assert first[how] == second[how], how
    assert first["identity"] == first["plain"] != first["natural"]
    assert first["ratio"] > 2
    assert (first["steps"], first["resumed steps"]) == (4, 2)
    assert first["resumed"] == first["natural"]  # feedback and rounding went on where they were
