"""Several small vectors in one spherical frame: what the study counts is what frames have."""

import numpy as np
import pytest

import fewbits
from fewbits_lab.problems import datasets
from fewbits_lab.studies.oc_vectors import run, show
from fewbits_lab.studies.oc_vectors.run import OF_DESCENT, OF_SIZES, ManyTargets, OcVectorsRow


def test_rows_of_a_matrix_are_vectors_of_their_own_under_one_key() -> None:
    x = np.random.default_rng(5).standard_normal((64, 10)).astype(np.float32)
    x *= np.geomspace(1e-3, 1e3, 64)[:, None].astype(np.float32)  # as different as can be
    frame = fewbits.compress(x, "spherical:alpha=0.25,block=10", seed=1)
    y = fewbits.decompress(frame)  # of the frame alone
    assert y.shape == x.shape
    errors = ((x - y) ** 2).sum(axis=1) / (x**2).sum(axis=1)
    assert errors.max() <= 0.25 * (1 + 1e-6)
    sections = fewbits.inspect(frame).sections
    assert sections["key"] == 16
    assert 8 * len(frame) / 64 < run.paper_bits(0.25, 10)


def test_sizes_and_descents_count_whole_frames() -> None:
    row = run._size(10, 0.5, 4, 7)
    assert row.bits * 4 % 8 == 0
    assert row.times_less == pytest.approx(320 / row.bits)
    x = np.random.default_rng(2).standard_normal((30, 6))
    problem = ManyTargets.of(x, x @ np.ones((6, 4)) + 0.1 * x[:, :4], 20.0)
    start = problem.start
    assert np.linalg.norm(problem.gradient(problem.solution)) < 1e-9
    assert np.linalg.norm(problem.gradient(start)) > 0.1
    compress = run._framed("spherical:alpha=0.5,block=6", (4, 6), 2, 3)
    sent = compress(problem.gradient(start), 0)
    assert sent.value.shape == start.shape
    assert sent.bits[0] % 8 == 0
    g = problem.gradient(start).reshape(4, 6)
    error = ((sent.value.reshape(4, 6) - g) ** 2).sum(axis=1)
    assert (error <= 0.5 * (1 + 1e-6) * (g**2).sum(axis=1)).all()


def test_pixels_and_classes_of_digits() -> None:
    pixels, classes = datasets.digits(30)
    assert pixels.shape == (1797, 30)
    assert classes.sum(axis=1).tolist() == [1] * 1797
    assert np.abs(pixels).max(axis=0) == pytest.approx(np.ones(30))


def test_what_is_said_is_of_the_rows() -> None:
    def row(what: str, vectors: int, times: float, seed: int = 7) -> OcVectorsRow:
        return OcVectorsRow(
            what, "x", 10, vectors, "spherical:alpha=0.2,block=10", seed, 320 / times, 46.0, times,
            7.0, 400 if what == OF_DESCENT else None, 336 if what == OF_DESCENT else None,
        )  # fmt: skip

    table = [row(OF_SIZES, 1, 0.5), row(OF_SIZES, 64, 11.0), row(OF_DESCENT, 20, 5.4),
             row(OF_DESCENT, 20, 5.8, 8), row(OF_DESCENT, 1, 0.6)]  # fmt: skip
    size, descent = show.findings(table)
    assert "640 with 1, 29 with 64" in size
    assert "5.6 (5.4 to 5.8) times fewer" in descent
    (claim,) = show.claims(table)
    assert claim.agrees
    assert not show.claims([row(OF_DESCENT, 20, 4.0)])[0].agrees
