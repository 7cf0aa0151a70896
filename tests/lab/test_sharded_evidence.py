"""The evidence for sharded training: the results are what the page says."""

from pathlib import Path

import numpy as np
import pytest

from fewbits_lab.results import results

ROOT = Path(__file__).resolve().parents[2]
RUNS = results("sharded-training")["runs"]
DATA = pytest.mark.parametrize("data", ["MNIST", "text"])


def found(data: str, worker: str, repeat: int = 0) -> list[dict]:
    """The runs of all seeds, in their order."""
    wanted = (data, worker, repeat)
    return [run for run in RUNS if (run["data"], run["worker"], run["repeat"]) == wanted]


@DATA
def test_losses_are_within_two_standard_errors_of_plain_training(data: str) -> None:
    pairs = list(zip(found(data, "natural"), found(data, "none"), strict=True))
    assert [run["seed"] for run, _ in pairs] == [plain["seed"] for _, plain in pairs] == [0, 1, 2]
    differences = [run["loss"] - plain["loss"] for run, plain in pairs]
    assert abs(np.mean(differences)) <= 2 * np.std(differences, ddof=1) / np.sqrt(3)
    assert 0 not in differences


@DATA
def test_bytes_are_saved_as_the_operator_says(data: str) -> None:
    for run in found(data, "natural"):
        lossy = run["compressed_share"]
        expected = 32 / (9 * lossy + 32 * (1 - lossy))
        assert run["plain_bytes"] / run["payload_bytes"] == pytest.approx(expected, rel=0.05)


@DATA
def test_the_same_run_again_ends_with_the_same_shards(data: str) -> None:
    first, *others = found(data, "natural")
    (again,) = found(data, "natural", repeat=1)
    assert again["shards"] == first["shards"] != others[0]["shards"]
    (coded,) = found(data, "natural:coder=rans")
    assert coded["shards"] == first["shards"]  # a coder loses nothing
    assert coded["payload_bytes"] < first["payload_bytes"]
