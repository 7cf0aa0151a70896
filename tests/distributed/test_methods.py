"""Methods over torch.distributed: the bits of the run in one process."""

import importlib.util
from pathlib import Path

import pytest
from launch import Launcher

from fewbits import methods


def alone(name: str) -> str:
    """The same scenario without torch: its file is imported by path."""
    path = Path(__file__).with_name("clients.py")
    spec = importlib.util.spec_from_file_location("clients", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.points(name, methods.Fleet.alone(module.CLIENTS))


def test_two_processes_have_the_iterates_of_one(launcher: Launcher) -> None:
    names = ["dcgd", "ef14", "ef21", "diana", "ef-bv", "marina", "dasha", "fedavg"]
    results = launcher.results("clients", 2, names=names)
    assert results[0] == results[1]
    for name in names:
        assert results[0][name] == alone(name), name
    assert len(set(results[0].values())) == len(names)


@pytest.mark.soak
def test_three_processes_have_them_too(launcher: Launcher) -> None:
    results = launcher.results("clients", 3, names=["diana", "fedavg"])
    assert all(own["diana"] == alone("diana") for own in results)
    assert all(own["fedavg"] == alone("fedavg") for own in results)
