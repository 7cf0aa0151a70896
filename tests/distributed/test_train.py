"""`fewbits train` as ranks that somebody else has started."""

from pathlib import Path
from typing import Any

from launch import Launcher
from trained import train

import cases
from fewbits.collectives import header
from printed import check_nodes


def test_every_operator_trains_and_keeps_the_replicas_alike(launcher: Launcher) -> None:
    """All in one launch; what each of them promises is tested elsewhere."""
    chosen = (
        "natural-dithering",
        "standard-dithering:p=2,coder=rans",
        "sparse-dithering:rounding=subtractive",
        "spherical:scale=unbiased",
        "sign",
        "top-k|natural",
        "hadamard|rand-k:fraction=0.5|sparse-dithering:rounding=stochastic",
        "scale|sparse-dithering:rounding=stochastic",
    )
    specs = (*chosen, *cases.others(*chosen, "identity", "float16", "bfloat16"))
    wanted = [word for spec in specs for word in ("--operator", spec)]
    runs = train(launcher, 2, *wanted)["runs"]
    assert [run["operator"] for run in runs] == list(specs)
    for run in runs:
        assert run["replicas_agree"]
        assert run["accuracy"] > 0.2  # chance is 0.1
        assert run["bytes_per_step"] < 0.25 * run["fp32_bytes_per_step"]


def test_workers_in_nodes_compress_between_nodes_only(launcher: Launcher) -> None:
    wanted = ("--operator", "none", "--operator", "natural", "--nodes", "2", "--model", "mlp")
    check_nodes(train(launcher, 4, *wanted))


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    launcher: Launcher, tmp_path: Path
) -> None:
    def run(*more: str) -> dict[str, Any]:
        return train(launcher, 2, "--operator", "natural", *more)["runs"][0]

    kept = ("--checkpoint", str(tmp_path))
    whole = run("--epochs", "2")
    run("--epochs", "1", *kept)
    resumed = run("--epochs", "2", *kept, "--resume")
    for figure in (
        "parameters_sha256",
        "accuracy",
        "loss",
        "test_loss",
        "steps",
        "compressed_share",
    ):
        assert resumed[figure] == whole[figure], figure
    assert [p["loss"] for p in resumed["curve"]] == [p["loss"] for p in whole["curve"]]
    # The link's measured speed decides whether DDP's two buckets travel together, with one header
    # in each direction, or apart, with two. Payloads are equal, so the rest is whole headers.
    pairs, rest = divmod(_sent(resumed) - _sent(whole), 2 * header.SIZE)
    assert rest == 0
    assert abs(pairs) <= whole["steps"]


def _sent(run: dict[str, Any]) -> int:
    return round(run["bytes_per_step"] * run["steps"])
