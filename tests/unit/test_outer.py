"""The outer step of LocalSGD."""

import numpy as np
import pytest

from fewbits.errors import SpecError

pytest.importorskip("torch")

from fewbits.localsgd.outer import Nesterov, Outer, Sgd, outer


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", [Sgd(), Sgd(0.3), Nesterov(), Nesterov(lr=0.2, momentum=0.5)])
def test_a_rule_is_its_formula_at_every_size(rule: Outer, dtype: type) -> None:
    draw = np.random.default_rng(3)
    for d in (0, 1, 65_535, 65_536, 65_537, 150_000):
        start, v = (draw.standard_normal(d).astype(dtype) for _ in range(2))
        momentum = v.copy() if rule.has_momentum else None
        expected = start.copy()
        for _ in range(3):
            mean = draw.standard_normal(d).astype(dtype)
            change = mean.copy()
            if isinstance(rule, Nesterov):
                mu = dtype(rule.momentum)
                v = mu * v + mean
                change = mean + mu * v
            expected = expected - dtype(rule.lr) * change
            rule.apply(start, mean, momentum)
        assert np.array_equal(start, expected)
        assert momentum is None or np.array_equal(momentum, v)


def test_nesterov_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    draw = np.random.default_rng(4)
    start = draw.standard_normal(1000)
    weight = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = torch.optim.SGD([weight], lr=0.7, momentum=0.9, nesterov=True)
    momentum = np.zeros(1000)
    for _ in range(5):
        gradient = draw.standard_normal(1000)
        weight.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        Nesterov().apply(start, gradient, momentum)
    # A few roundings of float64 in each of five steps, on values below 100.
    assert np.abs(start - weight.detach().numpy()).max() < 1e-12


def test_specs_are_read_and_written() -> None:
    assert outer("sgd") == Sgd()
    assert outer("nesterov") == Nesterov(0.7, 0.9)
    assert outer("nesterov:lr=1,momentum=0.5").spec == "nesterov:lr=1,momentum=0.5"
    assert str(outer("sgd:lr=1")) == "sgd"
    assert outer(Sgd(0.5)) == Sgd(0.5)


@pytest.mark.parametrize(
    "spec", ["adam", "", "sgd:momentum=0.9", "sgd:lr=0", "nesterov:momentum=1", "sgd:lr=nan", 3]
)
def test_what_makes_no_sense_is_refused(spec: str) -> None:
    with pytest.raises(SpecError):
        outer(spec)
