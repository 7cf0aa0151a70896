"""The comparison as text: a table, its legend and one verdict for each operator."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from fewbits.train.links import MODELLED_LINK
from fewbits.train.references import PLAIN_DDP

_TITLES = ("operator", "accuracy", "loss", "MB sent", "× smaller", "step ms", "compute", "codec",
           "wire", "compressed")  # fmt: skip

_WIDTH = 100  # of the summary


def render(document: dict[str, Any]) -> str:
    runs = document["runs"]
    lines = _on_link(document) if "link" in document else _aligned([_TITLES, *map(cells, runs)])
    # On a link the summary says it in fewer words.
    verdicts = [f"{run['operator']}: {run['verdict']}." for run in runs]
    ending = [line for said in document.get("summary") or () for line in wrap(said, _WIDTH)]
    warnings = [f"{r['operator']}: warning: {text}" for r in runs for text in r["warnings"]]
    legend = _legend(document)
    return "\n".join(
        ["", headline(document), "", *lines, "", *legend, *warnings, "", *(ending or verdicts)]
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def _on_link(document: dict[str, Any]) -> list[str]:
    """The table with speeds beside plain DDP's, and the rows of the loopback last."""
    loopback = document.get("loopback") or []
    titles = (*_TITLES[:-1], "speed")
    on_link = _with_speeds(document["runs"], "*" if _is_modelled(document) else "")
    lines = _aligned([titles, *on_link, *_with_speeds(loopback, "")])
    if loopback:
        epochs = "" if _is_modelled(document) else ", one epoch"
        lines.insert(2 + len(on_link), f"not shaped, the loopback of this machine{epochs}:")
    return lines


def _with_speeds(runs: Sequence[dict[str, Any]], mark: str) -> list[tuple[str, ...]]:
    """Rows whose last cell is the speed of a step beside plain DDP's; `mark` is for the model's."""
    plain = next((run["step_ms"]["total"] for run in runs if run["operator"] == PLAIN_DDP), None)
    rows = []
    for run in runs:
        speed = "" if plain is None else f"{plain / run['step_ms']['total']:.2f}×"
        *before, total, compute, codec, wire, _ = cells(run)
        rows.append((*before, total + mark, compute, codec, wire + mark, speed))
    return rows


def _is_modelled(document: dict[str, Any]) -> bool:
    return bool(document.get("link", {}).get("kind") == MODELLED_LINK)


def headline(document: dict[str, Any]) -> str:
    s = document["settings"]
    alone = f", {s['local_steps']} local steps, outer {s['outer']}" if s.get("local_steps") else ""
    return f"{trained(document)}, seed {s['seed']}{alone}"


def trained(document: dict[str, Any]) -> str:
    """What was trained, on how many workers, for how long."""
    s = document["settings"]
    link = document.get("link")
    nodes = f" in {s['nodes']} nodes" if s.get("nodes") else ""
    on = f" on {link['kind']} links of {link['text']} each way" if link else ""
    return (
        f"{document['data']}, {s['model']} of {document['parameters']:,} parameters, "
        f"{s['workers']} workers{nodes}{on}, epochs: {s['epochs']}, batch {s['batch_size']} in all"
    )


def cells(run: dict[str, Any]) -> tuple[str, ...]:
    ms = run["step_ms"]
    mark = "~" if run["bytes_kind"] == "estimated" else ""
    return (
        run["operator"],
        f"{100 * run['accuracy']:.1f} %",
        "diverged" if run["loss"] is None else f"{run['loss']:.4f}",
        f"{mark}{run['bytes_per_step'] / 1e6:.3f}",
        f"{mark}{run['ratio']:.2f}",
        *(f"{ms[part]:.1f}" for part in ("total", "compute", "codec", "wire")),
        f"{100 * run['compressed_share']:.1f} %",
    )


def _legend(document: dict[str, Any]) -> list[str]:
    runs = document["runs"]
    step = "mean" if any(run.get("local_steps") for run in runs) else "median"
    there = " to other nodes" if document["settings"].get("nodes") else ""
    lines = [
        "accuracy: on the test set; loss: mean training loss of the last epoch",
        f"MB sent: by each rank{there} in a step; × smaller: than the same gradients in fp32",
        f"step ms = compute + codec + wire: the {step} step, and how much of it stands still for",
        "          encoding and decoding, and for the link and the other ranks",
    ]
    if "link" in document:
        lines.append("speed: of the step, beside that of plain DDP on the same link")
    else:
        lines.append(
            "compressed: share of the gradient's elements; small and one-dimensional tensors go "
            "exact"
        )
    if _is_modelled(document):
        lines.append(
            "* modelled: measured computing and coding, and the bytes over the link's rate"
        )
    if any(run["bytes_kind"] == "estimated" for run in runs):
        lines.append("~ by formula: DDP and its own hooks count no bytes; their codec is in wire")
    return lines
