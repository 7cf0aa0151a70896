"""The whole job on one machine: a launch for each operator, then the comparison."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fewbits.errors import PeerError
from fewbits.presets import AUTO
from fewbits.switch.aggregator import AggregatorSetup, serving
from fewbits.switch.job import SWITCH
from fewbits.switch.keys import chosen_key
from fewbits.switch.protocol import Address
from fewbits.train import launcher, links, results, summary, verdict
from fewbits.train.board import Board
from fewbits.train.extras import check_installed
from fewbits.train.progress import tell
from fewbits.train.references import is_reference
from fewbits.train.settings import TrainSettings

ComparisonDocument = dict[str, Any]


def run(settings: TrainSettings) -> tuple[ComparisonDocument | None, PeerError | None]:
    """The comparison of the runs that ended well, and the error of a run that failed, if any.

    After a failure no further run is started, but the results so far are kept.
    """
    check_installed("torch")
    ended: list[dict[str, Any]] = []
    with links.opened(settings.link, settings.workers, settings.ranks_in_node) as meeting:
        _announce(meeting.link, "worker" if settings.nodes is None else "node")
        board = Board(settings.operators, ended)
        try:
            _launch(settings, meeting, board)
        except PeerError as error:
            document = together(settings, ended, meeting.link)
            return document, PeerError(f"{board.running}: {error}")
        finally:
            board.close()
    document = together(settings, ended, meeting.link)
    if document is None or meeting.link is None or meeting.link["kind"] != links.EMULATED_LINK:
        return document, None
    try:
        document["loopback"] = loopback = _on_loopback(settings)
    except PeerError as error:
        return document, PeerError(f"on the loopback: {error}")
    verdict.add_verdicts(document["runs"], document["test_samples"], loopback)
    document["summary"] = summary.lines(document)
    return document, None


def together(
    settings: TrainSettings, ended: list[dict[str, Any]], link: dict[str, Any] | None = None
) -> ComparisonDocument | None:
    """The document made from the `result` events of all runs; None if there are none."""
    if not ended:
        return None
    runs = measured = [event["run"] for event in ended]
    more: dict[str, Any] = {} if link is None else {"link": link}
    if link is not None and link["kind"] == links.MODELLED_LINK:
        rate = link["bits_per_second"] / settings.ranks_in_node
        runs = [links.on_link(run, rate) for run in measured]
        more["loopback"] = measured
    verdict.add_verdicts(runs, ended[0]["test_samples"], more.get("loopback", ()))
    about = {name: ended[0][name] for name in ("data", "parameters", "test_samples")}
    document = results.document(settings, about | more, runs)
    if link is not None:
        document["summary"] = summary.lines(document)
    return document


def _announce(link: dict[str, Any] | None, whose: str) -> None:
    """Say in one line what the link is; nothing if none was asked for."""
    if link is None:
        return
    if link["kind"] == links.EMULATED_LINK:
        tell(f"every {whose} has an emulated link of {link['text']} each way")
        return
    why = link["why_not_emulated"]
    tell(f"no link of {link['text']} can be emulated here, so its time is modelled ({why})")


def _on_loopback(settings: TrainSettings) -> list[dict[str, Any]]:
    """One epoch of every operator where nothing is shaped; `auto` needs more."""
    specs = [spec for spec in settings.operators if spec != AUTO]
    ended: list[dict[str, Any]] = []
    if specs:
        board = Board(specs, ended, where="on the loopback")
        short = replace(settings, epochs=1, checkpoint=None, resume=False)
        try:
            _started(short, specs, links.Meeting(), board)
        finally:
            board.close()
    return [event["run"] for event in ended]


def _launch(settings: TrainSettings, meeting: links.Meeting, board: Board) -> None:
    """All runs by the same processes, or each by its own if an aggregator serves it."""
    specs = list(settings.operators)
    for group in [[spec] for spec in specs] if settings.collective == SWITCH else [specs]:
        with _aggregators(settings, group[0]) as own:
            _started(own, group, meeting, board)


def _started(
    settings: TrainSettings, specs: list[str], meeting: links.Meeting, board: Board
) -> None:
    line = replace(settings, link=None).arguments(*specs)  # the link is the launcher's affair
    command = [sys.executable, "-m", "fewbits.train", "--events", *line]
    launcher.launch(command, settings.workers, board.show, meeting)


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
