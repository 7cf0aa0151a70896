"""Lower bounds: the tables of the paper, exact values, limits and both sides of every caveat."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import betainc

from fewbits.errors import SpecError
from fewbits.families import caps
from fewbits.theory import uncertainty
from fewbits_lab import information

# -log2 P by alpha and dimension, as recomputed from the paper, with the digits that are printed.
DIMENSIONS = (4, 8, 10, 14, 16, 24, 32, 100, 1000, 10**6)
PRINTED = {
    0.1: "7.17 14.35 17.84 24.73 28.15 41.74 55.23 169.01 1665.5 1660973.6",
    0.2: "5.63 10.78 13.27 18.16 20.58 30.16 39.65 119.4 1165.9 1160974.0",
    0.25: "5.12 9.62 11.78 16.03 18.12 26.41 34.62 103.4 1005.1 1000010.1",
    0.5: "3.46 5.92 7.06 9.29 10.38 14.66 18.86 53.66 505.3 500010.3",
    0.8: "2.15 3.14 3.57 4.40 4.80 6.32 7.78 19.47 165.96 160974.0",
    0.9: "1.73 2.30 2.54 3.00 3.21 4.02 4.78 10.62 80.6 76011.1",
}
TRUNCATED = {(0.2, 1000)}  # 1165.9508 is printed as 1165.9


def digits(text: str) -> int:
    return len(text.partition(".")[2])


@pytest.mark.parametrize("alpha", PRINTED)
def test_the_least_mean_bits_are_the_printed_ones(alpha: float) -> None:
    for d, text in zip(DIMENSIONS, PRINTED[alpha].split(), strict=True):
        bits = information.average_bits(alpha, d)
        places = digits(text)
        if (alpha, d) in TRUNCATED:
            assert f"{math.floor(bits * 10**places) / 10**places:.{places}f}" == text
            assert f"{bits:.{places}f}" != text
        else:
            assert f"{bits:.{places}f}" == text


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 0.3, 0.5, 0.9, 0.99, 0.9999, 1 - 1e-8])
@pytest.mark.parametrize("d", [2, 3, 4, 9, 64, 65, 66, 101, 400])
def test_the_share_is_half_the_incomplete_beta_function(alpha: float, d: int) -> None:
    expected = betainc((d - 1) / 2, 0.5, alpha) / 2
    if expected > 1e-290:
        assert information.cap_share(alpha, d) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("d", [1, 2, 3, 16, 63, 64])
def test_the_share_is_the_one_that_frames_depend_on(alpha: float, d: int) -> None:
    assert information.cap_share(alpha, d) == pytest.approx(caps.probability(alpha, d), rel=1e-12)


def test_shares_of_circle_and_ball_are_elementary() -> None:
    for alpha in (0.001, 0.2, 0.5, 0.97, 1 - 1e-12):
        arc = math.atan2(math.sqrt(alpha), math.sqrt(1 - alpha)) / math.pi
        height = alpha / (1 + math.sqrt(1 - alpha)) / 2
        assert information.cap_share(alpha, 2) == pytest.approx(arc, rel=1e-12)
        assert information.cap_share(alpha, 3) == pytest.approx(height, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("d", [10**4, 10**6, 10**8])
def test_high_dimensions_follow_the_sharp_form(alpha: float, d: int) -> None:
    """P ~ alpha^((d-1)/2) / sqrt(2 pi d (1 - alpha)), with a relative error of order 1/d."""
    sharp = (d - 1) / 2 * math.log2(1 / alpha) + math.log2(2 * math.pi * d * (1 - alpha)) / 2
    error = 2 / (d * (1 - alpha)) + 1e-15 * sharp
    assert information.average_bits(alpha, d) == pytest.approx(sharp, abs=error)


@pytest.mark.parametrize("sigmas", [0.1, 1.0, 1.7, 1.8, 3.0, 8.0])
def test_wide_caps_in_high_dimensions_follow_the_normal_law(sigmas: float) -> None:
    """A coordinate of a random direction is normal with variance 1/d; both methods meet here."""
    d = 10**8
    tail = math.erfc(sigmas / math.sqrt(2)) / 2
    share = information.cap_share(1 - sigmas**2 / d, d)
    assert share == pytest.approx(tail, rel=1e-5)


def test_a_random_direction_is_in_the_cap_as_often_as_said() -> None:
    rng = np.random.default_rng(5)
    for alpha, d in ((0.5, 8), (0.1, 3), (0.9, 32)):
        vectors = rng.standard_normal((200_000, d))
        inside = vectors[:, 0] >= math.sqrt(1 - alpha) * np.linalg.norm(vectors, axis=1)
        share = information.cap_share(alpha, d)
        sigma = math.sqrt(share * (1 - share) / len(vectors))
        assert inside.mean() == pytest.approx(share, abs=4 * sigma)


def test_more_error_or_fewer_values_need_fewer_bits() -> None:
    alphas = np.concatenate([np.geomspace(1e-9, 0.5, 40), 1 - np.geomspace(0.5, 1e-9, 40)[1:]])
    for d in (2, 7, 100, 10**5):
        bits = [information.average_bits(float(alpha), d) for alpha in alphas]
        assert all(more > less for more, less in pairwise(bits))
    for alpha in (0.01, 0.5, 0.9):
        bits = [information.average_bits(alpha, d) for d in range(1, 300)]
        assert all(less < more for less, more in pairwise(bits))


@pytest.mark.parametrize(
    ("alpha", "d", "lower", "upper"),
    [
        (0.1, 100, "175.6", "178.4"),
        (0.1, 1000, "1675.5", "1678.8"),
        (0.5, 1000, "515.3", "518.6"),
        (0.5, 10**6, "500030", "500035"),
    ],
)
def test_the_worst_case_interval_is_the_printed_one(
    alpha: float, d: int, lower: str, upper: str
) -> None:
    found = information.worst_case_bits(alpha, d)
    assert f"{found.lower:.{digits(lower)}f}" == lower
    assert f"{found.upper:.{digits(upper)}f}" == upper
    assert found.proved == information.average_bits(alpha, d) < found.lower


def test_the_uncertainty_principle_at_a_tenth_is_the_printed_one() -> None:
    assert f"{uncertainty.uncertainty_bits(0.1, 1):.4f}" == "1.6610"
    for alpha, d in ((0.1, 7), (0.9, 100), (1e-9, 10**8)):
        bits = uncertainty.uncertainty_bits(alpha, d)
        assert uncertainty.uncertainty_product(alpha, bits, d) == pytest.approx(1)
        assert uncertainty.uncertainty_product(alpha, 0.99 * bits, d) < 1
    assert uncertainty.uncertainty_product(0.1, 1e6, 2) == math.inf


def test_a_circle_is_covered_with_fewer_bits_than_the_principle_says() -> None:
    """The caveat as a construction: points of radius sqrt(1 - alpha) serve every unit vector."""
    alpha, points = 1e-4, 315
    radius, half_angle = math.sqrt(1 - alpha), math.pi / points
    worst = 1 + radius**2 - 2 * radius * math.cos(half_angle)
    assert worst == pytest.approx(9.95e-5, rel=1e-3)
    assert information.average_bits(alpha, 2) <= math.log2(points) == pytest.approx(8.30, abs=0.005)
    assert uncertainty.uncertainty_bits(alpha, 2) == pytest.approx(13.29, abs=0.005)
    assert not information.uncertainty_holds_for_unit_vectors(alpha, 2)


def test_the_principle_holds_for_unit_vectors_where_the_rule_of_thumb_says() -> None:
    for d in (2, 4, 8, 24, 100, 10**4, 10**8):
        for alpha in (1e-9, 1e-6, 1e-4, 0.01, 0.1, 0.5):
            thumb = 2 * math.pi * d * alpha * (1 - alpha)
            if thumb > 2 or thumb < 0.5:
                holds = information.uncertainty_holds_for_unit_vectors(alpha, d)
                assert holds == (thumb > 1), (alpha, d)


@pytest.mark.parametrize(
    ("nu", "text"),
    [
        (0.01, "6.59"),
        (0.05, "3.95"),
        (0.1, "3.3494"),
        (0.15, "3.085"),
        (0.2, "2.928"),
        (0.25, "2.822"),
        (0.5, "2.560"),
        (0.9, "2.400"),
    ],
)
def test_the_bound_on_sparse_dithering_is_the_printed_one(nu: float, text: str) -> None:
    bits = information.sparse_dithering_bits(nu)
    # 2.39947 was printed as 2.400, by way of 2.3995.
    assert f"{bits:.{digits(text)}f}" == (text if nu != 0.9 else "2.399")
    tau = np.linspace(1e-6, 1 - 1e-6, 100_001)
    entropy = -tau * np.log2(tau) - (1 - tau) * np.log2(1 - tau)
    total = entropy + 1.5 * (1 - tau) + (1 - tau / 2) / (2 * math.sqrt(nu))
    assert bits == pytest.approx(total.max(), abs=1e-8)


def test_the_gap_and_the_best_products_of_sparse_dithering_are_the_printed_ones() -> None:
    gap = information.sparse_dithering_bits(0.1) - uncertainty.uncertainty_bits(0.1, 1)
    assert f"{gap:.4f}" == "1.6885"
    products = {
        nu: uncertainty.uncertainty_product(nu, information.sparse_dithering_bits(nu), 1)
        for nu in np.arange(0.05, 0.2, 0.0001)
    }
    best = min(products, key=products.__getitem__)
    assert f"{products[best]:.2f}" == "10.39"
    assert best == pytest.approx(0.1006, abs=2e-4)


def test_unbiased_sparse_dithering_saves_what_the_paper_says() -> None:
    for omega, text in ((0.1, "3.166"), (0.25, "2.585"), (1.0, "2.085")):
        assert f"{information.stochastic_dithering_bits(omega):.3f}" == text
    saved = 32 / (1.25 * information.stochastic_dithering_bits(0.25))
    assert f"{saved:.3f}" == "9.903"


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan, math.inf])
def test_an_error_outside_the_unit_interval_is_refused(alpha: float) -> None:
    with pytest.raises(SpecError, match="between 0 and 1"):
        information.average_bits(alpha, 10)


def test_dimensions_and_steps_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SpecError, match="at least 1, got 0"):
        information.average_bits(0.5, 0)
    with pytest.raises(SpecError, match="at least 2, got 1"):
        information.worst_case_bits(0.5, 1)
    with pytest.raises(SpecError, match="nu must be positive"):
        information.sparse_dithering_bits(0)
    with pytest.raises(SpecError, match="omega must be positive"):
        information.stochastic_dithering_bits(math.inf)
