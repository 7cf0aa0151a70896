"""Peers and speeds: what is said of each codec is what it does, and nothing is made up."""

import math
import re
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

from fewbits import registry
from fewbits.bench.timing import Plan
from fewbits_lab.coders import candidates as coders
from fewbits_lab.experiment import StudySettings, silent
from fewbits_lab.peers import FAMILIES, Peer, PeerInput, torch_hooks
from fewbits_lab.recordings import gradients
from fewbits_lab.recordings import training as recording
from fewbits_lab.studies.codec_speed import run as codec_speed
from fewbits_lab.studies.codec_speed import show as codec_speed_show
from fewbits_lab.studies.peers import run as experiment
from fewbits_lab.studies.peers import show as experiment_show
from fewbits_lab.vectors import relative_error

ONCE = Plan(rounds=1)


@pytest.fixture(scope="module")
def gradient() -> PeerInput:
    rng = np.random.default_rng(2)
    shapes = ((96, 64), (64,), (32, 3, 3, 3), (5, 1))
    sizes = [math.prod(shape) for shape in shapes]
    return PeerInput(rng.laplace(size=sum(sizes)).astype(np.float32), shapes)


def hooks(gradient: PeerInput) -> dict[str, Peer]:
    return {peer.name: peer for peer in torch_hooks.peers(gradient)}


@pytest.mark.filterwarnings("ignore")
def test_the_table_has_every_package_and_real_figures(
    gradient: PeerInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = np.split(gradient.vector, np.cumsum([math.prod(s) for s in gradient.shapes])[:-1])
    named = {str(i): x.reshape(s) for i, (x, s) in enumerate(zip(layers, gradient.shapes,
                                                                 strict=True))}  # fmt: skip
    own = gradients.RecordedModel("gpt", "made up", recording.RecordedStep(1, 0.0, named))
    monkeypatch.setattr(gradients, "_recorded", lambda *_: (own,))
    monkeypatch.setattr(experiment, "_QUICK_PLAN", ONCE)
    table = experiment.rows(StudySettings(quick=True), silent)
    assert {row.package for row in table} == {family.package for family in FAMILIES}
    done = {row.codec: row for row in table if row.status == experiment.PEERS_MEASURED}
    assert done.keys() >= {"natural", "fp16_compress_hook", "powerSGD_hook, rank 4"}
    for row in done.values():
        assert 0 < row.bits_per_value < 40
        assert (row.error == 0) == (row.bias == "exact")
        assert row.encode_ratio > 0
    for row in table:
        if row.status != experiment.PEERS_MEASURED:
            assert row.bits_per_value is row.error is row.encode_ratio is None
    assert done["natural"].nan == "refused"
    assert done["fp16_compress_hook"].nan == "kept"
    assert done["fp16_compress_hook"].error == done["float16"].error
    assert done["zstd 1"].nan == "kept"
    assert 0.001 < done["natural"].error < 1 / 8 * 1.3
    assert any("hidden by" in text for text in experiment_show.findings(table))


def test_a_package_that_is_missing_says_so(
    gradient: PeerInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(experiment, "version", version)
    (family,) = (one for one in FAMILIES if one.package == "hivemind")
    ((row, peer),) = experiment._family(family, gradient, "x")
    assert peer is None
    assert (row.status, row.version, row.error) == ("not installed", family.tried, None)


def test_a_package_that_does_not_import_says_why(
    gradient: PeerInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "version", lambda _: "9.9")
    family = FAMILIES[0]._replace(module="no_such_module")
    ((row, peer),) = experiment._family(family, gradient, "x")
    assert peer is None
    assert row.status.startswith("does not import: ")


def test_low_rank_matrices_are_kept_by_powersgd(gradient: PeerInput) -> None:
    """Exact on a matrix of its rank, and far from it on noise: neither zero nor identity pass."""
    rng = np.random.default_rng(4)
    exact = rng.standard_normal((96, 1)) @ rng.standard_normal((1, 64))
    peer = hooks(PeerInput(gradient.vector[: 96 * 64], ((96, 64),)))["powerSGD_hook, rank 1"]
    x = exact.astype(np.float32).ravel()
    message = peer.encode(x)
    assert relative_error(x, peer.decode(message)) < 1e-10
    assert peer.size(message) == 4 * (96 + 64)
    noise = gradient.vector[: 96 * 64]
    assert 0.8 < relative_error(noise, peer.decode(peer.encode(noise))) < 1


def test_what_is_no_large_matrix_goes_as_it_is(gradient: PeerInput) -> None:
    peer = hooks(gradient)["powerSGD_hook, rank 1"]
    message = peer.encode(gradient.vector)
    decoded = peer.decode(message)
    assert peer.size(message) == 4 * (96 + 64 + 64 + 32 + 27 + 5)
    assert np.array_equal(decoded[-5:], gradient.vector[-5:])
    assert np.array_equal(decoded[96 * 64 :][:64], gradient.vector[96 * 64 :][:64])


@pytest.mark.filterwarnings("ignore")
def test_the_hooks_of_eight_bits_lose_what_their_step_says(gradient: PeerInput) -> None:
    """A step s loses about s²/12 a value; every rows' own step is smaller."""
    x, found = gradient.vector, hooks(gradient)
    step = float(x.max() - x.min()) / 255
    whole = relative_error(x, found["quantization_pertensor_hook"].decode(
        found["quantization_pertensor_hook"].encode(x)))  # fmt: skip
    assert whole == pytest.approx(step**2 / 12 / np.mean(x.astype(np.float64) ** 2), rel=0.1)
    rows = found["quantization_perchannel_hook"]
    assert relative_error(x, rows.decode(rows.encode(x))) < whole


def test_one_nan_is_seen_or_said_to_be_hidden() -> None:
    def peer(decode):
        return Peer("x", lambda x: x, decode, len, "biased", "nothing")

    x = np.ones(30, np.float32)
    assert experiment.after_nan(peer(lambda x: x), x) == "kept"
    assert experiment.after_nan(peer(np.nan_to_num), x) == "hidden"
    assert experiment.after_nan(peer(lambda x: x * x.sum()), x) == "spread"
    assert experiment.after_nan(peer(lambda x: 1 // 0), x) == "fails (ZeroDivisionError)"


def test_speeds_have_every_operator_and_the_yardsticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec_speed, "_QUICK_ELEMENTS", 20_000)
    monkeypatch.setattr(codec_speed, "_QUICK_PLAN", ONCE)
    table = codec_speed.rows(StudySettings(quick=True), silent)
    speeds = {(row.codec, row.direction): row for row in table}
    assert speeds["memcpy", "encode"].memcpy_ratio == 1
    known = registry.catalogue()
    timed = {re.split("[:|]", row.codec)[0] for row in table}
    assert {*known.by_name, *known.stages} <= timed
    assert {coder.name for coder in coders.LOSSLESS} <= {row.codec for row in table}
    assert speeds["natural", "decode"].bits_per_value == pytest.approx(9, abs=0.02)
    assert 20 < speeds["zstd 1", "encode"].bits_per_value < 33
    assert all(row.memcpy_ratio > 0 and row.cpu_seconds > 0 for row in table)
    assert len(codec_speed_show.findings(table)) == 3
