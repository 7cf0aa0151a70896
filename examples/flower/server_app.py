"""The server: one line differs from an app without compression."""

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from model import accuracy, initial, test_digits

import fewbits.flower

app = ServerApp()


def evaluate(round: int, arrays: ArrayRecord) -> MetricRecord:
    """Accuracy on digits that no client has."""
    weights = {name: array.numpy() for name, array in arrays.items()}
    found = accuracy(weights, *test_digits())
    print(f"round {round}: test accuracy {found:.3f}", flush=True)
    return MetricRecord({"accuracy": found})


@app.main()
def main(grid: Grid, context: Context) -> None:
    """FedAvg over a compressed grid."""
    compressed = fewbits.flower.CompressedGrid(grid, "natural")
    strategy = FedAvg(fraction_evaluate=0.0)
    strategy.start(
        grid=compressed,
        initial_arrays=ArrayRecord({name: Array(value) for name, value in initial().items()}),
        num_rounds=context.run_config["num-server-rounds"],
        evaluate_fn=evaluate,
    )
    print(f"clients left out: {len(compressed.rejections)}", flush=True)
    sent = compressed.report().traffic  # of arrays, to and from all clients
    print(f"bytes: {sent.down:,} down, {sent.up:,} up, {sent.ratio:.2f} times fewer", flush=True)
