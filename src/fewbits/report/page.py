"""One self-contained page from the result file of `fewbits train`: no network, no scripts."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from fewbits.errors import SpecError
from fewbits.report import html, svg
from fewbits.train import summary, table, verdict
from fewbits.train.references import PLAIN_DDP

_COLOURS = 6
_TITLES = ("operator", "× fewer bytes", "× speed", "accuracy", "step ms", "compute", "codec",
           "wire", "MB per step", "final loss", "compressed")  # fmt: skip
_PARTS = ("compute", "codec", "wire")
_AXES = (
    ("step", "steps", 1.0),
    ("bytes", "MB sent by each rank", 1e-6),
    ("seconds", "seconds", 1.0),
)

PageDocument = dict[str, Any]


def write(numbers: Path, page: Path) -> None:
    """Write the page of the result file `numbers`, whole or not at all."""
    try:
        text = render(read(numbers))
    except KeyError as error:
        raise SpecError(
            f"{numbers} is no whole result of fewbits train: it has no {error}"
        ) from None
    unfinished = page.with_name(page.name + ".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(page)


def read(path: Path) -> PageDocument:
    """The result file at `path`; `SpecError` if it is not one of `fewbits train`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SpecError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != "fewbits-train":
        raise SpecError(f"{path} is not a result of fewbits train")
    if document.get("version") != 1:
        raise SpecError(f"{path} has version {document.get('version')}: upgrade fewbits")
    return document


def render(document: PageDocument) -> str:
    runs = document["runs"]
    body = (
        f"<h1>Gradient compression, compared</h1><p>{escape(table.trained(document))}</p>",
        _gain(document),
        html.section("Figures", _table(document)),
        html.section("A step's time", _times(runs)),
        html.section("Training loss", _legend(runs) + _curves(runs)),
        html.section("Each operator", _verdicts(runs)),
        html.section("To repeat it", _facts(document)),
    )
    return html.page(f"fewbits train: {document['data']}", body)


def _verdicts(runs: Sequence[PageDocument]) -> str:
    words = [(run["operator"], f"{run['verdict']}.") for run in runs]
    words += [(run["operator"], f"warning: {text}") for run in runs for text in run["warnings"]]
    items = (f"<li><b>{escape(name)}</b> {escape(text)}</li>" for name, text in words)
    return f'<ul class="verdicts">{"".join(items)}</ul>'


def _gain(document: PageDocument) -> str:
    """The gain of the fastest of our operators, in three numbers, and the summary if there is one.

    It is empty where plain DDP did not run, for then nothing can be said to gain.
    """
    found = summary.compared(document["runs"])
    if found is None:
        return ""
    best, plain = found
    accuracies, samples = (best["accuracy"], plain["accuracy"]), document.get("test_samples")
    points = f"{100 * (accuracies[0] - accuracies[1]):+.1f}"
    if samples:
        points += f" ± {100 * verdict.accuracy_margin(*accuracies, samples):.1f}"
    tiles = {
        "as fast a step as plain DDP": f"{_total(plain) / _total(best):.1f}×",
        "fewer bytes": f"{best['ratio']:.1f}×",
        "points of accuracy": points,
    }
    items = "".join(f"<li><b>{value}</b> {escape(text)}</li>" for text, value in tiles.items())
    said = "".join(f"<p>{escape(line)}</p>" for line in document.get("summary") or ())
    name = f"<code>{escape(best['operator'])}</code>"
    return html.section(f"With {name}", f'<ul class="gain">{items}</ul>{said}')


def _table(document: PageDocument) -> str:
    notes = (
        "Speed is that of a step beside plain DDP's. Loss is the mean training loss of the last "
        "epoch. Bytes are those of the busiest rank; ~ marks an estimate by formula, for DDP and "
        "its own hooks count none, and their codec is part of the wire. Small and one-dimensional "
        "tensors are sent exact."
    )
    shown = html.table(_TITLES, _rows(document["runs"])) + f'<p class="soft">{notes}</p>'
    if document.get("loopback"):
        shown += "<p>The same where nothing is shaped, on the loopback of this machine:</p>"
        shown += html.table(_TITLES, _rows(document["loopback"]))
    return shown


def _rows(runs: Sequence[PageDocument]) -> list[list[str]]:
    """The cells of each run, the gain first."""
    plain = next((_total(run) for run in runs if run["operator"] == PLAIN_DDP), None)
    rows = []
    for run in runs:
        name, accuracy, loss, sent, ratio, *times, compressed = table.cells(run)
        speed = "" if plain is None else f"{plain / _total(run):.2f}"
        cells = (name, ratio, speed, accuracy, *times, sent, loss, compressed)
        first, *others = map(escape, cells)
        rows.append([first.replace(":", ":<wbr>"), *others])  # a phone is narrow
    return rows


def _total(run: PageDocument) -> float:
    return float(run["step_ms"]["total"])


def _legend(runs: Sequence[PageDocument]) -> str:
    items = (
        f'<li><svg viewBox="0 0 28 10"><line class="line c{index % _COLOURS}" x1="0" y1="5" '
        f'x2="28" y2="5"/></svg>{escape(run["operator"])}</li>'
        for index, run in enumerate(runs)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _curves(runs: Sequence[PageDocument]) -> str:
    figures = []
    for key, label, scale in _AXES:
        series = [
            svg.Series(run["operator"], index % _COLOURS, _points(run, key, scale))
            for index, run in enumerate(runs)
        ]
        figure = svg.lines(series, label, "loss")
        figures.append(f"<figure><figcaption>against {label}</figcaption>{figure}</figure>")
    return f'<div class="figures">{"".join(figures)}</div>'


def _points(run: PageDocument, key: str, scale: float) -> list[svg.Point]:
    return [(scale * p[key], p["loss"]) for p in run["curve"] if p["loss"] is not None]


def _times(runs: Sequence[PageDocument]) -> str:
    bars = [
        svg.StackedBar(run["operator"], [(part, part, run["step_ms"][part]) for part in _PARTS])
        for run in runs
    ]
    legend = "".join(
        f'<li><svg viewBox="0 0 28 10"><rect class="{part}" width="28" height="10"/></svg>'
        f"{part}</li>"
        for part in _PARTS
    )
    note = "The median step. Codec and wire are the time that it stands still for them."
    figure = f'<ul class="legend">{legend}</ul><figure>{svg.bars(bars, "ms a step")}</figure>'
    return f'<div class="time">{figure}<p class="soft">{note}</p></div>'


def _facts(document: PageDocument) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    machine = document["machine"]
    facts = {
        "command": f"<code>{escape(document['command'])}</code>",
        "seed": escape(str(document["settings"]["seed"])),
        "versions": escape(versions),
        "machine": escape(
            f"{machine['system']}, {machine['architecture']}, {machine['processors']} processors"
        ),
    }
    return html.facts(facts)
