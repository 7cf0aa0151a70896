"""An app for real sockets: two honest clients, and two that attack in every round."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fewbits.flower import CompressedGrid, client_mod
from unit.flower.attacks import ATTACKS
from unit.flower.federation import model

HONEST, HOSTILE = 2, 2
PLANNED = [
    "cut at 8/16", "a bit flipped in the checksum", "more elements than the model",
    f"sparse dithering with nu = {5e-324}", "the most elements", "NaN in a frame",
    "a change that overflows", "a declared negative shape", "another operator",
    "numpy's pickled objects", "a thousand records", "weight NaN", "weight 1e30",
    "a name of a megabyte", "for ever a stranger", "an exact array cut at 8/16",
]  # fmt: skip
ROUNDS = len(PLANNED) // HOSTILE
PROJECT = """[project]
name = "hostile"
version = "1.0.0"
dependencies = []

[tool.flwr.app]
publisher = "fewbits"

[tool.flwr.app.components]
serverapp = "hostile:server"
clientapp = "hostile:client"

[tool.flwr.app.config]
out = "seen.json"
"""
MODULE = """from integration import hostile_federation

client = hostile_federation.client()
server = hostile_federation.server()
"""


def client() -> ClientApp:
    app = ClientApp(mods=[_attack, client_mod("natural", seed=1)])
    app.train()(train)
    return app


def train(message: Message, context: Context) -> Message:
    """Changes that depend on the node and the round."""
    turn = int(message.content["config"]["server-round"])
    rng = np.random.default_rng([context.node_id % 2**32, turn])
    moved = ArrayRecord()
    for name, array in message.content["arrays"].items():
        x = array.numpy()
        moved[name] = Array(np.asarray((x + 0.1 * rng.standard_normal(x.shape)).astype(x.dtype)))
    metrics = MetricRecord({"num-examples": 1 + context.node_id % 7, "loss": 0.5})
    return Message(RecordDict({"arrays": moved, "metrics": metrics}), reply_to=message)


def _attack(message: Message, context: Context, call_next: Any) -> Message:
    """Around fewbits' own mod: what leaves the node is no longer its reply."""
    reply = call_next(message, context)
    own = int(context.node_config["partition-id"]) - HONEST
    if own < 0:
        return reply
    turn = int(message.content["config"]["server-round"]) - 1
    (sent,) = ATTACKS[PLANNED[turn * HOSTILE + own]](message, reply)
    return sent


class Sorted(FedAvg):
    """FedAvg that adds up replies in the order of nodes, whenever they come."""

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        kept = sorted(replies, key=lambda reply: reply.metadata.src_node_id)
        return super().aggregate_train(server_round, kept)


def run(grid: Grid, number: int) -> tuple[CompressedGrid, ArrayRecord]:
    """All rounds, on `number` nodes, and the weights after them."""
    used = CompressedGrid(grid, "natural", seed=2)
    strategy = Sorted(fraction_evaluate=0.0, min_train_nodes=number, min_available_nodes=number)
    return used, strategy.start(used, model(), num_rounds=ROUNDS, timeout=120).arrays


def server() -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        used, arrays = run(grid, HONEST + HOSTILE)
        seen = {
            "nodes": sorted(grid.get_node_ids()),
            "rejected": [(one.exchange, one.node, one.reason) for one in used.rejections],
            "arrays": {name: array.data.hex() for name, array in arrays.items()},
        }
        Path(str(context.run_config["out"])).write_text(json.dumps(seen))

    return app
