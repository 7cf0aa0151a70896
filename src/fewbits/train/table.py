"""The comparison as text: a table, its legend and one verdict for each operator."""

from typing import Any

_TITLES = ("operator", "accuracy", "loss", "MB sent", "× smaller", "step ms", "compute", "codec",
           "wire", "compressed")  # fmt: skip


def render(document: dict[str, Any]) -> str:
    runs = document["runs"]
    rows = [_TITLES, *(cells(run) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
    lines.insert(1, "-" * len(lines[0]))
    verdicts = [f"{run['operator']}: {run['verdict']}." for run in runs]
    verdicts += [f"{r['operator']}: warning: {text}" for r in runs for text in r["warnings"]]
    return "\n".join(["", headline(document), "", *lines, "", *_legend(runs), "", *verdicts])


def headline(document: dict[str, Any]) -> str:
    s = document["settings"]
    alone = f", {s['local_steps']} local steps, outer {s['outer']}" if s.get("local_steps") else ""
    return f"{trained(document)}, seed {s['seed']}{alone}"


def trained(document: dict[str, Any]) -> str:
    """What was trained, on how many workers, for how long."""
    s = document["settings"]
    return (
        f"{document['data']}, {s['model']} of {document['parameters']:,} parameters, "
        f"{s['workers']} workers, epochs: {s['epochs']}, batch {s['batch_size']} in all"
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


def _legend(runs: list[dict[str, Any]]) -> list[str]:
    step = "mean" if any(run.get("local_steps") for run in runs) else "median"
    lines = [
        "accuracy: on the test set; loss: mean training loss of the last epoch",
        "MB sent: by each rank in a step; × smaller: than the same gradients in fp32",
        f"step ms = compute + codec + wire: the {step} step, and how much of it stands still for",
        "          encoding and decoding, and for the link and the other ranks",
        "compressed: share of the gradient's elements; small and one-dimensional tensors go exact",
    ]
    if any(run["bytes_kind"] == "estimated" for run in runs):
        lines.append("~ by formula: DDP and its own hooks count no bytes; their codec is in wire")
    return lines
