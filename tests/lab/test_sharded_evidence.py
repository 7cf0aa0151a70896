"""The evidence for sharded training: the results are what the page says."""

from pathlib import Path

import numpy as np
import pytest

from fewbits_lab.results import results

ROOT = Path(__file__).resolve().parents[2]
RUNS = results("sharded-training")["runs"]
DATA = pytest.mark.parametrize("data", ["MNIST", "text"])


def found(data: str, worker: str, repeat: int = 0, replicas: int = 1) -> list[dict]:
    """The runs of all seeds, in their order."""
    wanted = (data, worker, repeat, replicas)
    names = ("data", "worker", "repeat", "replicas")
    return [run for run in RUNS if tuple(run[name] for name in names) == wanted]


def differences(data: str, replicas: int) -> list[float]:
    own, without = (found(data, worker, replicas=replicas) for worker in ("natural", "none"))
    pairs = list(zip(own, without, strict=True))
    assert [run["seed"] for run, _ in pairs] == [plain["seed"] for _, plain in pairs] == [0, 1, 2]
    return [run["loss"] - plain["loss"] for run, plain in pairs]


def two_errors(gaps: list[float]) -> float:
    return float(2 * np.std(gaps, ddof=1) / np.sqrt(len(gaps)))


@DATA
def test_losses_are_within_two_standard_errors_of_plain_training(data: str) -> None:
    gaps = differences(data, 1)
    assert abs(np.mean(gaps)) <= two_errors(gaps)
    assert 0 not in gaps


@DATA
def test_replicas_end_with_no_larger_loss_than_plain_ones(data: str) -> None:
    gaps = differences(data, 2)
    assert np.mean(gaps) <= two_errors(gaps)
    assert 0 not in gaps


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


def test_replicas_exchange_a_fraction_of_the_bytes() -> None:
    for worker, least in (("natural", 3.4), ("natural:coder=rans", 7.0)):
        for run in found("MNIST", worker, replicas=2):
            assert run["plain_bytes"] / run["sent_bytes"] >= least
    (coded,), (first, *_) = (
        found("MNIST", worker, replicas=2) for worker in ("natural:coder=rans", "natural")
    )
    assert coded["shards"] == first["shards"]
