"""The common part of `fewbits-lab run` and `all`: computes studies and writes the page."""

import argparse
from pathlib import Path
from typing import Any

from fewbits.cli.console import ProgressBar, print_json, say, table
from fewbits.errors import SpecError
from fewbits_lab import store
from fewbits_lab.experiment import Experiment, StudySettings
from fewbits_lab.page import folder
from fewbits_lab.printed import Comparison, departures

_STEPS = 1000  # of the progress bar
_SEEDS = 2**31


def add_options(parser: argparse.ArgumentParser, *, recorded: str) -> None:
    """The options that `run` and `all` share."""
    add = parser.add_argument
    add("--out", metavar="DIR", help="the folder of results; required")
    add("--seed", type=_seed, default=StudySettings().seed, help="default: 7")
    add("--quick", action="store_true", help="fewer repetitions, rougher figures")
    add("--data", metavar="DIR", help="a folder of data sets, for some of them (docs/lab.md)")
    add("--force", action="store_true", help="compute finished results again")
    add("--recorded", metavar="DIR", help=recorded)


def _seed(text: str) -> int:
    """A seed that every generator takes, also with a step's number beside it."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < _SEEDS:
        raise argparse.ArgumentTypeError(
            f"expected a whole number from 0 to {_SEEDS - 1}, got {text!r}"
        )
    return value


def run(chosen: list[Experiment[Any]], options: argparse.Namespace, *, shown: bool = False) -> None:
    """Compute what is chosen, and write the page; `shown`: with the laboratory's own results."""
    if not options.out:  # told after a study that nobody knows
        missing = options.out is None
        raise SpecError("--out DIR is required" if missing else "--out must name a folder, got ''")
    if options.data is not None and not (options.data and Path(options.data).is_dir()):
        raise SpecError(f"--data must be a folder of data sets, got {options.data!r}")
    out, settings = Path(options.out), StudySettings(options.seed, options.quick, options.data)
    store.check_ready(out)
    if not options.force:
        for experiment in chosen:  # all of them before the first is computed
            store.check_free(experiment, settings, out)
    if options.recorded is not None:
        folder.take(out, Path(options.recorded))
    elif shown:
        folder.take(out)
    results: dict[str, store.StudyResult] = {}
    try:
        _obtain(chosen, settings, options, results)
    except KeyboardInterrupt:
        say(f"interrupted: {len(results)} of {len(chosen)} results are in {out}; "
            "the same command without --force goes on")  # fmt: skip
        raise
    page = folder.build(out)
    if options.json:
        print_json([_summary(result) for result in results.values()])
    else:
        print(_table(list(results.values())))
        print(f"wrote {page}")


def _obtain(
    chosen: list[Experiment[Any]],
    settings: StudySettings,
    options: argparse.Namespace,
    results: dict[str, store.StudyResult],
) -> None:
    """Add one result after another to `results`, which keeps them where this is interrupted."""
    for number, experiment in enumerate(chosen, 1):
        label = f"{experiment.name} ({number} of {len(chosen)})"
        with ProgressBar(label, _STEPS, each=True) as progress:
            results[experiment.name] = store.obtain(
                experiment,
                settings,
                Path(options.out),
                force=options.force,
                tick=lambda part, bar=progress: bar.show(round(part * _STEPS)),  # type: ignore[misc]
            )


def _summary(result: store.StudyResult) -> dict[str, Any]:
    compared = [row for row in result.rows if isinstance(row, Comparison) and row.printed]
    return {
        "name": result.experiment.name,
        "rows": len(result.rows),
        "printed": len(compared),
        "departures": len(departures(compared)),
        "computed": result.fresh,
        "seconds": result.made.get("seconds"),
    }


def _table(results: list[store.StudyResult]) -> str:
    cells = []
    for found in map(_summary, results):
        state = "computed" if found["computed"] else "was there"
        numbers = (str(found[key]) for key in ("rows", "printed", "departures"))
        spent = "" if found["seconds"] is None else f"{found['seconds']:.1f}"
        cells.append((found["name"], *numbers, spent, state))
    titles = ("name", "rows", "printed", "departures", "seconds", "state")
    return table(titles, cells, right="rows,printed,departures,seconds")
