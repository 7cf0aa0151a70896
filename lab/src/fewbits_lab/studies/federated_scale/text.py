"""Makes the text of README and docs about `federated-scale`."""

from fewbits_lab.prose import paragraph
from fewbits_lab.results import results
from fewbits_lab.studies.federated_scale import show
from fewbits_lab.tables import markdown


def scale_table() -> str:
    """FedAvg from 10 to 10,000 clients."""
    return markdown(show.by_clients(results("federated-scale")))


def scale_verdict() -> str:
    """Rounds of operators without memory, of top-k with one, and seconds."""
    rows = results("federated-scale")["rows"]
    plain = {row["clients"]: row for row in rows if row["operator"] == "none"}
    memory = "top-k + ef21"
    own = [row for row in rows if row["operator"] not in ("none", memory)]
    more = max(row["rounds"] - plain[row["clients"]]["rounds"] for row in own)
    fewer = max(1 - row["seconds"] / plain[row["clients"]]["seconds"] for row in own)
    return paragraph(
        f"Rounds of operators without memory exceed those of no compression by at most {more} at every scale, so bytes",
        "fall in proportion to the frames. Top-k with EF21 sends least if everybody takes part in every round. With",
        "a few clients in a round it does not: the server still uses old shifts of absent clients, so its step must",
        "be short (here it is the share of clients that take part), and rounds grow faster than messages shrink.",
        f"Modelled seconds fall by {100 * fewer:.0f} % at most, because the server sends the model uncompressed.",
    )  # fmt: skip
