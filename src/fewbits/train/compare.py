"""The whole job on one machine: a launch for each operator, then the comparison."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fewbits.errors import PeerError, SpecError
from fewbits.links.aggregator import Address, Aggregator, Setup
from fewbits.train import launcher, results, table, verdict
from fewbits.train.extras import check_installed
from fewbits.train.progress import Progress
from fewbits.train.references import is_reference
from fewbits.train.settings import SWITCH, Settings

Document = dict[str, Any]


def run(settings: Settings) -> tuple[Document | None, PeerError | None]:
    """The comparison of the runs that ended well, and what made a run fail, if one did.

    After a failure no further run is started, but what is known is not thrown away.
    """
    check_installed("torch")
    ended: list[dict[str, Any]] = []
    for spec in settings.operators:
        try:
            ended.append(_launch(settings, spec))
        except PeerError as error:
            return together(settings, ended), PeerError(f"{spec}: {error}")
    return together(settings, ended), None


def together(settings: Settings, ended: list[dict[str, Any]]) -> Document | None:
    """The document of the `result` events of all runs, None without any."""
    if not ended:
        return None
    runs = [event["run"] for event in ended]
    verdict.add_verdicts(runs, ended[0]["test_samples"])
    about = {name: ended[0][name] for name in ("data", "parameters", "test_samples")}
    return results.document(settings, about, runs)


def publish(document: Document, report_path: str | None) -> str:
    """The table, after writing the page and its numbers where they are asked for."""
    text = table.render(document)
    if report_path is None:
        return text
    numbers = Path(report_path).with_suffix(".json")
    results.write(document, numbers)
    # A program of its own: pages are made from result files, whoever wrote them.
    command = [sys.executable, "-m", "fewbits.report", str(numbers), report_path]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise SpecError(made.stderr.strip() or "the report could not be made")
    return f"{text}\n\nreport: {report_path}, numbers: {numbers}"


def check_report(path: str | None) -> None:
    """Refuse a report that could not be written, before the training and not after it."""
    if path is None:
        return
    if not path.endswith(".html"):
        raise SpecError(f"--report must name an .html file, got {path}")
    if not Path(path).resolve().parent.is_dir():
        raise SpecError(f"--report {path}: the folder does not exist")


def _launch(settings: Settings, spec: str) -> dict[str, Any]:
    progress = Progress(spec)
    try:
        with _aggregators(settings, spec) as own:
            command = [sys.executable, "-m", "fewbits.train", "--events", *own.arguments(spec)]
            return launcher.launch(command, settings.workers, progress.show)
    finally:
        progress.close()


@contextmanager
def _aggregators(settings: Settings, spec: str) -> Iterator[Settings]:
    """The settings with an aggregator of this machine, if they need one and name none."""
    needs = settings.scheme == SWITCH and settings.workers > 1 and not is_reference(spec)
    if settings.aggregator or not needs:
        yield settings
        return
    with Aggregator(Address("127.0.0.1", 0), Setup(settings.workers)) as own:
        thread = threading.Thread(target=own.serve, name="fewbits-aggregator", daemon=True)
        thread.start()
        try:
            yield replace(settings, aggregator=(str(own.address),))
        finally:
            own.stop()
            thread.join()
