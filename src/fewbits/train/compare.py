"""The whole job on one machine: a launch for each operator, then the comparison."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fewbits.errors import PeerError
from fewbits.switch.aggregator import AggregatorSetup, serving
from fewbits.switch.job import SWITCH
from fewbits.switch.keys import chosen_key
from fewbits.switch.protocol import Address
from fewbits.train import launcher, results, verdict
from fewbits.train.extras import check_installed
from fewbits.train.progress import RunProgress
from fewbits.train.references import is_reference
from fewbits.train.settings import TrainSettings

ComparisonDocument = dict[str, Any]


def run(settings: TrainSettings) -> tuple[ComparisonDocument | None, PeerError | None]:
    """The comparison of the runs that ended well, and the error of a run that failed, if any.

    After a failure no further run is started, but the results so far are kept.
    """
    check_installed("torch")
    ended: list[dict[str, Any]] = []
    for spec in settings.operators:
        try:
            ended.append(_launch(settings, spec))
        except PeerError as error:
            return together(settings, ended), PeerError(f"{spec}: {error}")
    return together(settings, ended), None


def together(settings: TrainSettings, ended: list[dict[str, Any]]) -> ComparisonDocument | None:
    """The document made from the `result` events of all runs; None if there are none."""
    if not ended:
        return None
    runs = [event["run"] for event in ended]
    verdict.add_verdicts(runs, ended[0]["test_samples"])
    about = {name: ended[0][name] for name in ("data", "parameters", "test_samples")}
    return results.document(settings, about, runs)


def _launch(settings: TrainSettings, spec: str) -> dict[str, Any]:
    progress = RunProgress(spec)
    try:
        with _aggregators(settings, spec) as own:
            command = [sys.executable, "-m", "fewbits.train", "--events", *own.arguments(spec)]
            return launcher.launch(command, settings.workers, progress.show)
    finally:
        progress.close()


@contextmanager
def _aggregators(settings: TrainSettings, spec: str) -> Iterator[TrainSettings]:
    """The settings with an aggregator of this machine, if they need one and name none."""
    needs = settings.collective == SWITCH and settings.workers > 1 and not is_reference(spec)
    if settings.aggregator or not needs:
        yield settings
        return
    setup, here = AggregatorSetup(settings.workers), Address("127.0.0.1", 0)
    with serving(setup, here, chosen_key()) as own:
        yield replace(settings, aggregator=(str(own.address),))
