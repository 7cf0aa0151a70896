"""Hypothesis profiles, the `--soak` switch, and fixtures that several folders use."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# For `cases`: pytest's importlib mode adds nothing.
sys.path.insert(0, str(Path(__file__).parent))

from fewbits.backend import library as _native
from native_tables import each_table

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
settings.register_profile("dev", max_examples=50, **_COMMON)
settings.register_profile("ci", max_examples=300, derandomize=True, **_COMMON)
settings.register_profile("nightly", max_examples=20_000, **_COMMON)
_default = "ci" if os.environ.get("CI") == "true" else "dev"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", _default))


gc.disable()  # until all tests are collected: it would look at all of them again and again


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="also run the tests marked soak")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak") or "soak" in (config.getoption("-m") or ""):
        return
    soak = [item for item in items if item.get_closest_marker("soak")]
    if len(soak) == len(items):  # asked for by name: say what is missing
        for item in items:
            item.add_marker(pytest.mark.skip(reason="longer than the gate allows: pass --soak"))
        return
    config.hook.pytest_deselected(items=soak)  # to report each of them as skipped takes time
    items[:] = [item for item in items if not item.get_closest_marker("soak")]


def pytest_collection_finish() -> None:
    """Twenty thousand tests are a million objects, which no collection of garbage need look at."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(params=tuple(each_table()))
def simd(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each table of kernels that runs here in turn; the one that was in use is restored."""
    before = _native.simd()
    _native.use_simd(request.param)
    yield request.param
    _native.use_simd(before)
