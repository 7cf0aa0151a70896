"""The client: one line differs from an app without compression."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import message_size_mod
from model import accuracy, digits, train

import fewbits.flower

app = ClientApp(mods=[message_size_mod, fewbits.flower.client_mod("natural")])


@app.train()
def fit(message: Message, context: Context) -> Message:
    """Train on this client's digits."""
    weights = {name: array.numpy() for name, array in message.content["arrays"].items()}
    x, y = digits(context.node_config["partition-id"], context.node_config["num-partitions"])
    config = context.run_config
    weights = train(weights, x, y, epochs=config["local-epochs"], rate=config["learning-rate"])
    arrays = ArrayRecord({name: Array(value) for name, value in weights.items()})
    metrics = MetricRecord({"num-examples": len(x), "accuracy": accuracy(weights, x, y)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
