"""What examples and `fewbits train` print, however their ranks are started."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

Check = Callable[[str], None]
TOOLS = ("tensorboard", "wandb", "prometheus")


def losses(printed: str) -> list[float]:
    return [float(line.split()[-1]) for line in printed.splitlines() if ": loss " in line]


def _learned(printed: str) -> None:
    first, *_, last = losses(printed)
    assert last < first / 10


def _nodes(printed: str) -> None:
    _learned(printed)
    assert "headers to the other node" in printed
    assert "MB in this rank's node, uncompressed" in printed


def _fsdp(printed: str) -> None:
    _learned(printed)
    assert "× less than plain reduce-scatter" in printed
    assert "MB of parameters by FSDP, not compressed" in printed


def _hsdp(printed: str) -> None:
    _learned(printed)
    assert "headers to the other replica" in printed
    assert "MB in this rank's replica, uncompressed" in printed


def _grad_scaler(printed: str) -> None:
    taken = ["skipped" not in line for line in printed.splitlines() if line.startswith("step")]
    assert taken == [True, True, True, False, True, True]
    assert "all parameters finite: True" in printed


def _local_sgd(outer: str) -> Check:
    def check(printed: str) -> None:
        _learned(printed)
        assert f"320 steps in 20 rounds of up to 16, outer step {outer}: 12" in printed
        assert "7." in printed.partition("MB headers, ")[2][:2]

    return check


def _streaming(printed: str) -> None:
    _learned(printed)
    assert "2 ranks, 81 exchanges" in printed
    assert "4 fragments, 2 steps late" in printed
    count, most, model = (float(own) for own in re.findall(r"[\d.]+", printed.splitlines()[-1]))
    assert count == 80
    assert 0 < most < 0.3 * model / 7  # of a model that is compressed 7 times


def _monitoring(printed: str) -> None:
    """Every step is logged, by stand-ins for the tools that are not installed."""
    for tool in TOOLS:
        lines = [line for line in printed.splitlines() if line.startswith(tool)]
        if find_spec("prometheus_client" if tool == "prometheus" else tool) is None:
            assert len(lines) == 5
            assert all("'fewbits/ratio': 3." in line for line in lines)
            errors = [
                float(line.partition("relative_error': ")[2].split(",")[0].rstrip("}"))
                for line in lines
            ]
            assert 0.1 < min(errors) <= max(errors) < 0.4  # expected is at most √(1/8)


# By script and what follows its name: ranks, arguments, and what must be printed.
PRINTED: dict[str, tuple[int, tuple[str, ...], Check]] = {
    "ddp_nodes.py": (4, ("--nodes", "2"), _nodes),
    "fsdp.py": (2, (), _fsdp),
    "hsdp.py": (4, (), _hsdp),
    "ddp_grad_scaler.py": (2, (), _grad_scaler),
    "local_sgd.py sgd": (2, ("sgd",), _local_sgd("sgd")),
    "local_sgd.py nesterov": (2, ("nesterov",), _local_sgd("nesterov")),
    "streaming.py": (2, (), _streaming),
    "ddp_monitoring.py": (2, TOOLS, _monitoring),
}


def check_nodes(document: dict[str, Any]) -> None:
    """Four workers in two nodes, with operators none and natural."""
    plain, ours = document["runs"]
    assert document["settings"]["nodes"] == 2
    assert ours["replicas_agree"]
    # 9 bits of 32, and the headers; a rank of a node sends half of what the node sends.
    assert 3.2 < ours["ratio"] < 32 / 9
    assert ours["inside_bytes"] > ours["bytes_per_step"] * ours["steps"]
    assert plain["bytes_per_step"] == 4 * document["parameters"] * 2 * 3 / 4 / 2
