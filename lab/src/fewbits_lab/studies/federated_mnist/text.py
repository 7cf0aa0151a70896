"""Makes the text of README and docs about `federated-mnist`."""

from fewbits_lab.record import Item
from fewbits_lab.results import results
from fewbits_lab.studies.federated_mnist import show
from fewbits_lab.tables import markdown


def summaries() -> list[Item]:
    """Accuracy of FedAvg, its paired difference to `none`, and the ratio of bytes up."""
    return show.mnist_summaries(results("federated-mnist"))


def federated_table() -> str:
    """FedAvg on MNIST."""
    return markdown(show.mnist(results("federated-mnist")))
