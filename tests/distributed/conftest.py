"""The launcher that all tests of a session share."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `launch`: pytest's importlib mode adds nothing

from launch import Launcher

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    """Processes that have imported torch, ready to be forked."""
    ready = Launcher()
    yield ready
    ready.close()
