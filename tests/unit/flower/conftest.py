"""Flower's records need to know in which run they are made."""

import logging
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("flwr") else ["test_*.py"]


@pytest.fixture(autouse=True)
def _run() -> Iterator[None]:
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    flower = logging.getLogger("flwr")
    before = flower.level, flower.propagate
    flower.setLevel(logging.WARNING)
    flower.propagate = True  # so that `caplog` hears it
    yield
    flower.level, flower.propagate = before
