"""The monitoring example says to each tool what that tool takes."""

import re
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ddp_monitoring.py"


def test_the_monitoring_example_calls_each_tool_as_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The packages are replaced by ones that keep what they are told: no server is needed."""
    told: list[tuple] = []

    class Gauge:
        def __init__(self, name: str, text: str) -> None:
            assert re.fullmatch("[a-zA-Z_:][a-zA-Z0-9_:]*", name)  # what Prometheus allows
            told.append(("gauge", name, text))
            self.set = lambda value: told.append((name, value))

    def put(name: str, **members: object) -> None:
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)

    run = SimpleNamespace(log=lambda found, step: told.append(("wandb", step, found)))
    put("wandb", init=lambda project, mode: told.append((project, mode)) or run)
    writer = SimpleNamespace(add_scalar=lambda *words: told.append(("scalar", *words)))
    put("torch.utils.tensorboard", SummaryWriter=lambda folder: told.append((folder,)) or writer)
    put("prometheus_client", Gauge=Gauge, start_http_server=lambda port, addr: told.append((addr,)))
    sinks = runpy.run_path(str(EXAMPLE))["SINKS"]
    found = {"fewbits/ratio": 3.5, "fewbits/skipped": False}
    for name in ("tensorboard", "wandb", "prometheus"):
        sink = sinks[name]()
        for step in (0, 1):
            sink(step, found)
    every = [("scalar", name, value, step) for step in (0, 1) for name, value in found.items()]
    gauges = [("gauge", name.replace("/", "_"), name) for name in found]
    values = [(name.replace("/", "_"), value) for name, value in found.items()]
    assert told == [
        ("build/tensorboard",), *every,
        ("fewbits", "offline"), ("wandb", 0, found), ("wandb", 1, found),
        ("127.0.0.1",), gauges[0], values[0], gauges[1], values[1], *values,
    ]  # fmt: skip
