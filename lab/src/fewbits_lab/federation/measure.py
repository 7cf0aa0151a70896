"""Bytes of a federation's rounds, counted on the wire."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fewbits.errors import PeerError
from fewbits_lab.federation.federation import Federation

_PROJECT = """[project]
name = "measured"
version = "1.0.0"
dependencies = []

[tool.flwr.app]
publisher = "fewbits"

[tool.flwr.app.components]
serverapp = "measured:server"
clientapp = "measured:client"

[tool.flwr.app.config]
out = "seen.json"
side = 1000
num-server-rounds = 1
"""
_MODULE = """from fewbits_lab.federation import app

client = app.client_app({operator!r})
server = app.server_app({operator!r})
"""


@dataclass(frozen=True, slots=True)
class RoundBytes:
    """TCP bytes of one round and node, and what the node says that it received."""

    operator: str
    round: int
    node: int
    up: int
    down: int


@dataclass(frozen=True, slots=True)
class FederationRun:
    """All rounds of one run, and whether every client received what the server thinks."""

    rounds: list[RoundBytes]
    first_exact: bool
    in_step: bool
    rejected: int


def measure(
    operators: Sequence[str], *, rounds: int, side: int = 1000, timeout: float = 600.0
) -> list[FederationRun]:
    """One run for each operator, `none` for plain Flower, on one SuperLink with two SuperNodes."""
    with tempfile.TemporaryDirectory(prefix="fewbits-flower-") as name:
        folder = Path(name)
        with Federation(folder) as federation:
            return [
                _run(federation, folder, operator, rounds=rounds, side=side, timeout=timeout)
                for operator in operators
            ]


def _run(
    federation: Federation, folder: Path, operator: str, *, rounds: int, side: int, timeout: float
) -> FederationRun:
    app = folder / "app"
    app.mkdir(exist_ok=True)
    (app / "pyproject.toml").write_text(_PROJECT)
    (app / "measured.py").write_text(_MODULE.format(operator=operator))
    out = folder / "seen.json"
    out.unlink(missing_ok=True)
    config: dict[str, str | int | float] = {
        "out": str(out), "side": side, "num-server-rounds": rounds,
    }  # fmt: skip
    log = federation.run(app, config, timeout)
    if not out.exists():  # Flower's command says that all is well, whatever the server did
        raise PeerError(f"the server ended early: {'; '.join(log.strip().splitlines()[-3:])}")
    seen = json.loads(out.read_text())
    starts = seen["starts"]
    found = [
        RoundBytes(
            operator,
            number,
            node,
            meter.count("up", starts[number - 1], starts[number]),
            meter.count("down", starts[number - 1], starts[number]),
        )
        for number in range(1, rounds + 1)
        for node, meter in enumerate(federation.meters)
    ]
    received = seen["received"]
    return FederationRun(
        found,
        first_exact=received[0] == [seen["first"]] * len(federation.meters),
        in_step=received == [[own] * len(federation.meters) for own in seen["sent"]],
        rejected=len(seen["rejected"]),
    )
