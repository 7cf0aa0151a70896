"""The app that is measured: a model of a given size, clients that move it at random.

Everything that crosses the wire is what `fewbits.flower` or plain Flower sends; there is nothing to
learn. Clients say what they received by a digest, and the server keeps the digests.
"""

import json
import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fewbits.flower import CompressedGrid, client_mod

NONE = "none"
_STEP = 0.01  # how far a client moves every weight, in standard deviations of the weights


def digest(record: ArrayRecord) -> int:
    """A number that tells received weights apart, small enough for a metric."""
    total = sha256()
    for name, array in record.items():
        total.update(name.encode() + array.numpy().tobytes())
    return int.from_bytes(total.digest()[:6], "little")


def client_app(operator: str) -> ClientApp:
    """Clients that compress by `operator`, or not at all."""
    app = ClientApp(mods=[] if operator == NONE else [client_mod(operator)])

    @app.train()  # type: ignore[untyped-decorator, unused-ignore]
    def train(message: Message, context: Context) -> Message:
        """Random changes."""
        weights = message.content.array_records["arrays"]
        turn = int(str(message.content.config_records["config"]["server-round"]))
        rng = np.random.default_rng([context.node_id % 2**32, turn])
        moved = ArrayRecord()
        for name, array in weights.items():
            x = array.numpy()
            moved[name] = Array(x + _STEP * rng.standard_normal(x.shape, dtype=np.float32))
        metrics = MetricRecord({"num-examples": 1, "received": digest(weights)})
        return Message(RecordDict({"arrays": moved, "metrics": metrics}), reply_to=message)

    return app


class Watched(FedAvg):
    """FedAvg that notes when rounds begin and what clients say that they received."""

    def __init__(self, grid: Grid) -> None:
        super().__init__(fraction_evaluate=0.0)
        self._grid = grid
        self.starts: list[float] = []
        self.received: list[list[int]] = []
        self.sent: list[int] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Note the time."""
        self.starts.append(time.time())
        self._weights = arrays
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """Note the digests, of what clients have and of what the grid says that they have."""
        kept = list(replies)
        own = [
            int(str(reply.content.metric_records["metrics"]["received"]))
            for reply in kept
            if reply.has_content()
        ]
        self.received.append(own)
        known = self._weights
        if isinstance(self._grid, CompressedGrid):
            known = self._grid.reference["arrays"]
        self.sent.append(digest(known))
        return super().aggregate_train(server_round, kept)


def server_app(operator: str) -> ServerApp:
    """A server that compresses by `operator`, or not at all; writes what it saw to `out`."""
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator, unused-ignore]
    def main(grid: Grid, context: Context) -> None:
        """All rounds."""
        config = context.run_config
        side = int(str(config["side"]))
        x = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
        first = ArrayRecord({"weights": Array(x)})
        used = grid if operator == NONE else CompressedGrid(grid, operator)
        strategy = Watched(used)
        strategy.start(used, first, num_rounds=int(str(config["num-server-rounds"])))
        rejected = [] if operator == NONE else [vars(one) for one in used.rejections]  # type: ignore[attr-defined]
        seen = {
            "starts": [*strategy.starts, time.time()],
            "received": strategy.received,
            "sent": strategy.sent,
            "first": digest(first),
            "rejected": rejected,
        }
        Path(str(config["out"])).write_text(json.dumps(seen))

    return app
