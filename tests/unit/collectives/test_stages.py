"""Compositions between ranks: the same bits everywhere, and a mean that is right."""

import numpy as np
import pytest

import fewbits
from fewbits import Rng
from fewbits.reference.formats import BFLOAT16, FLOAT32, FLOAT64, Format
from unit.collectives.local import COLLECTIVES, gradient, reduced, same_everywhere, units

SPECS = (
    "top-k:fraction=0.25|natural",
    "top-k:fraction=0.25|identity",
    "rand-k:fraction=0.5|natural:coder=rans",
    "hadamard:block=64|natural",
    "hadamard:signs=private|top-k:fraction=0.5|bfloat16",
)
SIZES = (1, 7, 64, 1001, 3)
every = pytest.mark.parametrize("collective", COLLECTIVES)


@every
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("format", [FLOAT32, FLOAT64, BFLOAT16], ids=lambda format: format.name)
def test_all_ranks_end_with_the_same_bits(collective: str, spec: str, format: Format) -> None:
    """Beside exact units and units of an operator with kernels of its own, in one batch."""
    batch = units(SIZES, spec)
    batch[1:3] = units(SIZES, "identity")[1:2] + units(SIZES, "natural")[2:3]
    results = [reduced(collective, 3, batch, format=format, threads=threads) for threads in (1, 2)]
    assert same_everywhere(results[0]).tobytes() == same_everywhere(results[1]).tobytes()
    assert np.isfinite(results[0][0]).all()
    assert results[0][0].any()


@every
@pytest.mark.parametrize("spec", ["rand-k:fraction=0.5|natural", "hadamard|natural"])
def test_the_mean_over_steps_is_the_mean_of_the_gradients(collective: str, spec: str) -> None:
    r"""Unbiased both ways: of $T$ steps the mean is off by $\sqrt{v/T}\,\|x\|$ at most.

    $v = \omega/n + (1 + \omega/n)\,\omega$ for $n$ ranks whose vectors are one.
    """
    size, steps, world = 1000, 60, 2
    batch = units((size,), spec)
    x = gradient(0, size)
    total = np.zeros(size)
    for step in range(steps):
        total += reduced(collective, world, batch, vectors=lambda _: x, rng=Rng.from_seed(step))[0]
    omega = fewbits.operator(spec).guarantee(size).omega
    variance = omega / world + (1 + omega / world) * omega
    wanted = x.view(np.float32).astype(float)
    assert np.linalg.norm(total / steps - wanted) <= 2 * np.sqrt(variance / steps) * np.linalg.norm(
        wanted
    )


@every
def test_ranks_draw_different_places(collective: str) -> None:
    """Common places would leave half of the mean at zero; with private ones a sixteenth is."""
    batch = units((4096,), "rand-k:fraction=0.5|identity", "identity")
    result = same_everywhere(reduced(collective, 4, batch, vectors=lambda _: gradient(1, 4096)))
    share = (result == 0).mean()
    assert 0.04 < share < 0.09


@every
def test_what_is_not_finite_reaches_every_rank(collective: str) -> None:
    def vectors(rank: int) -> np.ndarray:
        values = gradient(rank, 1000).view(np.float32).copy()
        if rank == 1:
            values[123] = np.nan
        return values.view(np.uint32)

    for spec in SPECS:
        results = reduced(collective, 3, units((1000,), spec), vectors=vectors)
        for result in results:
            assert not np.isfinite(result).all(), spec
