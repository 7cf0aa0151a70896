"""Training examples print what they should; torchrun starts them in `integration`."""

from pathlib import Path

import pytest
from launch import Launcher

from printed import PRINTED

EXAMPLES = Path(__file__).parents[2] / "examples"
LONG = ("local_sgd.py nesterov",)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.soak] * (name in LONG)) for name in PRINTED],
)
def test_an_example_prints_what_it_should(launcher: Launcher, name: str) -> None:
    ranks, arguments, check = PRINTED[name]
    path = EXAMPLES / name.partition(" ")[0]
    told = launcher.results("script", ranks, path=str(path), arguments=arguments)
    check("".join(own["printed"] for own in told))
