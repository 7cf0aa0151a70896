"""The arithmetic of a memory is that of the papers, and nothing is lost in it."""

from typing import Any

import numpy as np
import pytest

import fewbits
from fewbits import Rng
from fewbits.feedback import Sender
from fewbits.feedback.rule import Array
from fewbits.theory import step_sizes
from unit.feedback.quadratics import (
    WORKERS,
    Quadratic,
    compressor,
    dcgd,
    ef14,
    ef_bv,
    ours,
    problem,
)

STEPS = 12
GAMMA = 0.05
CONTRACTING = ("top-k:fraction=0.1|natural", "sign", "sparse-dithering", "spherical", "natural")
NOT_CONTRACTING = "rand-k:fraction=0.25|natural"  # omega is 3.5
UNBIASED = ("natural", "natural:coder=rans", NOT_CONTRACTING)


def factor(spec: str, senders: int = 1) -> float:
    omega = fewbits.operator(spec).guarantee(512).omega
    assert omega is not None
    return 1 / (1 + omega / senders)


def same(run: Any, other: Any) -> None:
    assert [x.tobytes() for x in run.points] == [x.tobytes() for x in other.points]
    assert [m.tobytes() for m in run.workers] == [m.tobytes() for m in other.workers]
    assert len({x.tobytes() for x in run.points}) == len(run.points)  # it moves all the time


@pytest.mark.parametrize("beta", [0, 0.9])
@pytest.mark.parametrize("spec", CONTRACTING)
def test_ef14_is_the_published_update(spec: str, beta: float) -> None:
    f = problem()
    method = f"ef14:momentum={beta}" if beta else "ef14"
    same(
        ours(f, method, spec, GAMMA / 5, STEPS),
        ef14(f, compressor(spec), GAMMA / 5, STEPS, beta=beta),
    )


@pytest.mark.parametrize("beta", [0, 0.9])
@pytest.mark.parametrize("spec", ["top-k:fraction=0.1|natural", "sign"])
def test_an_error_decays_before_it_is_added(spec: str, beta: float) -> None:
    f, method = problem(), f"ef14:momentum={beta},decay=0.75"
    decayed = ef14(f, compressor(spec), GAMMA / 5, STEPS, beta=beta, decay=0.75)
    same(ours(f, method, spec, GAMMA / 5, STEPS), decayed)
    whole = ef14(f, compressor(spec), GAMMA / 5, STEPS, beta=beta)
    assert whole.points[-1].tobytes() != decayed.points[-1].tobytes()


@pytest.mark.parametrize("spec", ["top-k:fraction=0.1|natural", NOT_CONTRACTING])
def test_dgc_is_the_published_update(spec: str) -> None:
    f = problem()
    scale = factor(spec) if spec == NOT_CONTRACTING else 1
    masked = ef14(f, compressor(spec), GAMMA / 5, STEPS, factor=scale, beta=0.9, masks=True)
    same(ours(f, "dgc:momentum=0.9", spec, GAMMA / 5, STEPS), masked)
    for errors, momenta in masked.workers:
        assert 0 < (momenta == 0).mean() < 0.5  # some have begun anew, and not all
        assert np.abs(errors[momenta == 0]).max() < np.abs(errors).max()


def test_what_travels_exactly_keeps_its_momentum_with_dgc() -> None:
    sender = Sender.of("dgc:momentum=0.5", "identity", d=2)
    memory = sender.init(2)
    for step, expected in enumerate(([2, -4], [3, -6], [3.5, -7])):
        frame, memory = sender.step(np.float32([2, -4]), memory, Rng.from_seed(step))
        assert fewbits.decompress(frame).tolist() == expected
    assert memory.tolist() == [[0, 0], [3.5, -7]]


@pytest.mark.parametrize("beta", [0, 0.5])
def test_ef14_scales_what_does_not_contract(beta: float) -> None:
    f, spec = problem(), NOT_CONTRACTING
    scaled = ef14(f, compressor(spec), GAMMA, STEPS, factor=factor(spec), beta=beta)
    same(ours(f, f"ef14:momentum={beta}", spec, GAMMA, STEPS), scaled)


@pytest.mark.parametrize("spec", [*CONTRACTING, NOT_CONTRACTING])
def test_ef21_is_the_published_update(spec: str) -> None:
    f = problem()
    both = factor(spec) if spec == NOT_CONTRACTING else 1
    run = ours(f, "ef21", spec, GAMMA, STEPS)
    published = ef_bv(f, compressor(spec), GAMMA, STEPS, shift=both, scale=both)
    same(run, published)
    assert run.server.tobytes() == published.server.tobytes()


@pytest.mark.parametrize("spec", UNBIASED)
@pytest.mark.parametrize("method", ["diana", "ef-bv"])
def test_diana_and_ef_bv_are_the_published_updates(method: str, spec: str) -> None:
    f = problem()
    scale = 1 if method == "diana" else factor(spec, WORKERS)
    run = ours(f, method, spec, GAMMA, STEPS)
    published = ef_bv(f, compressor(spec), GAMMA, STEPS, shift=factor(spec), scale=scale)
    same(run, published)
    assert run.server.tobytes() == published.server.tobytes()


@pytest.mark.parametrize(
    ("method", "spec"),
    [("ef21", "top-k:fraction=0.1|natural"), ("diana", "natural"), ("ef-bv", NOT_CONTRACTING)],
)
def test_the_receivers_shift_is_the_mean_of_the_senders(method: str, spec: str) -> None:
    run = ours(problem(), method, spec, GAMMA, 100)
    mean = np.mean(run.workers, axis=0, dtype=np.float64)
    assert min(map(np.linalg.norm, run.workers)) > 1  # at the optimum the mean itself vanishes
    # Each of 100 steps rounds both sides by at most 2^-24 of values below 8, three times.
    assert np.abs(run.server - mean).max() <= 100 * 3 * 8 * 2**-24


def potential(f: Quadratic, step: float, theta: float) -> float:
    """Psi of EF-BV's Theorem 1 at x = 0 with shifts of 0."""
    zero = np.zeros(f.optimum.size, np.float32)
    squares = [float((f.gradient(i, zero).astype(np.float64) ** 2).sum()) for i in range(WORKERS)]
    return f.excess(zero) + step / (2 * theta) * float(np.mean(squares))


@pytest.mark.parametrize(
    ("method", "spec"),
    [("ef21", "top-k:fraction=0.5|natural"), ("diana", "natural"), ("ef-bv", "natural")],
)
def test_shifts_reach_the_optimum_as_fast_as_theory_says(method: str, spec: str) -> None:
    r"""$E \Psi_T \le \max(1 - \gamma\mu, (1 + r) / 2)^T \Psi_0$ (Condat et al., Theorem 1), and by
    Markov's inequality a run is above 100 times that with a probability of at most 1 %.
    """
    f = problem()
    promise = fewbits.operator(spec).guarantee(512)
    omega = promise.omega or 0.0
    bias = 0.0 if promise.unbiased else float(np.sqrt(promise.error))
    rule = step_sizes.ef_bv(
        f.smoothness, bias, omega, omega / WORKERS, linear=True,
        scale=None if method == "ef-bv" else 1.0,
    )  # fmt: skip
    used = Sender.of(method, spec, d=512, senders=WORKERS).rule
    assert (used.shifts, used.step, used.scale) == pytest.approx((True, rule.shift, rule.scale))

    def contraction(factor: float, variance: float) -> float:
        return (1 - factor + factor * bias) ** 2 + factor**2 * variance

    r, r_mean = contraction(rule.shift, omega), contraction(rule.scale, omega / WORKERS)
    root = np.sqrt((1 + r) / (2 * r)) - 1
    rate = max(1 - rule.step * f.convexity, (1 + r) / 2)
    steps = int(np.ceil(np.log(1e-6) / np.log(rate)))
    bound = 100 * rate**steps * potential(f, rule.step, root * (1 + root) * r / r_mean)
    run = ours(f, method, spec, rule.step, steps)
    reached = f.excess(run.points[-1])
    assert reached <= bound
    # DCGD at the same operator and its own step keeps the noise of its last step alone: at the
    # optimum all |g| are 4/3, where natural compression has a variance of 2/9 (top-k more).
    gamma = step_sizes.dcgd(f.smoothness, omega or 1 / 8, WORKERS)
    plain = dcgd(f, compressor(spec), gamma, 60)
    stalled = np.mean([f.excess(x) for x in plain.points[-20:]])
    noise = 0.5 * f.convexity * gamma**2 * 512 * (2 / 9) / WORKERS
    assert stalled > noise / 2
    assert reached < stalled / 1000


def rounded(values: Array, dtype: str) -> Array:
    """What a gradient of that dtype can hold."""
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)
    return values.astype(dtype)


TOP = "top-k:fraction=0.01|natural"


@pytest.mark.parametrize(
    ("spec", "momentum", "dtype"),
    [
        (TOP, 0, "float32"),
        (TOP, 0, "float16"),
        (TOP, 0, "bfloat16"),
        (NOT_CONTRACTING, 0, "float32"),
        ("natural", 0.9, "bfloat16"),
        pytest.param("sign", 0, "float16", marks=pytest.mark.soak),
    ],
)
def test_what_was_not_sent_is_remembered(spec: str, momentum: float, dtype: str) -> None:
    """The sum of gradients (of momenta) is what was sent and what is left, to 1e-6: R20."""
    sender = Sender.of(f"ef14:momentum={momentum}", spec, d=400)
    memory, source = sender.init(400), np.random.default_rng(3)
    given, sent = np.zeros(400), np.zeros(400)
    velocity = np.zeros(400)
    for step in range(1000):
        g = rounded(source.standard_normal(400) + 0.1, dtype)
        velocity = momentum * velocity + g.astype(np.float64)
        given += velocity
        frame, memory = sender.step(g, memory, Rng.from_seed(step))
        sent += sender.rule.scale * fewbits.decompress(frame).astype(np.float64)
    assert memory.dtype == np.float32
    whole = np.linalg.norm(given)
    assert np.linalg.norm(given - sent - memory[0]) <= 1e-6 * whole
    assert np.linalg.norm(sent) > 0.5 * whole  # something was sent,
    assert np.linalg.norm(memory[0]) > 1e-4 * whole  # and something was not


def test_small_additions_to_a_large_memory_are_not_lost() -> None:
    sender = Sender.of("ef14", "top-k:fraction=0.5|natural", d=2)
    memory = np.float32([[0.0, 0.5]])
    for step in range(1000):
        _, memory = sender.step(np.float32([1.0, 1e-4]), memory, Rng.from_seed(step))
    assert memory[0, 1] == pytest.approx(0.6, abs=1e-3)
    assert memory[0, 0] == 0
