"""`fewbits lab`: the papers' tables and figures, computed anew beside what is printed."""

import argparse
from pathlib import Path
from typing import Any

from fewbits import lab
from fewbits.cli.console import Progress, Subcommands, add_command, print_json, say, table
from fewbits.errors import SpecError
from fewbits.lab import page, store
from fewbits.lab.printed import Comparison, departures

_STEPS = 1000  # of the progress bar
_SEEDS = 2**31


def register(commands: Subcommands) -> None:
    """Add the command's parsers."""
    parser = commands.add_parser(
        "lab",
        help="the papers' tables and figures, computed anew",
        description="The papers' tables and figures, computed anew beside what is printed.",
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="list|run|all", required=True)
    add_command(verbs, "list", summary="what there is", example="fewbits lab list", run=run_list)
    run = add_command(
        verbs,
        "run",
        summary="compute some of them, and write CSV, PNG and index.html",
        example="fewbits lab run nc-table1 oc-spherical --out results",
        run=run_some,
    )
    run.add_argument("names", nargs="+", metavar="NAME", help="see 'fewbits lab list'")
    every = add_command(
        verbs,
        "all",
        summary="compute all of them, and write CSV, PNG and index.html",
        example="fewbits lab all --out results",
        run=run_all,
    )
    for verb in (run, every):
        verb.add_argument("--out", required=True, metavar="DIR", help="the folder of results")
        verb.add_argument("--seed", type=_seed, default=lab.Settings().seed, help="default: 7")
        verb.add_argument("--quick", action="store_true", help="fewer repetitions, rougher figures")
        verb.add_argument(
            "--data", metavar="DIR", help="a folder of data sets, for some of them (docs/lab.md)"
        )
        verb.add_argument("--force", action="store_true", help="compute finished results again")


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


def run_list(options: argparse.Namespace) -> None:
    """Print names and titles."""
    found = [(experiment.name, experiment.title) for experiment in lab.EXPERIMENTS]
    if options.json:
        print_json([{"name": name, "title": title} for name, title in found])
    else:
        print(table(("name", "what it is"), found))


def run_some(options: argparse.Namespace) -> None:
    """Compute the named ones."""
    _run([lab.find(name) for name in dict.fromkeys(options.names)], options)


def run_all(options: argparse.Namespace) -> None:
    """Compute all."""
    _run(list(lab.EXPERIMENTS), options)


def _run(chosen: list[lab.Experiment[Any]], options: argparse.Namespace) -> None:
    if not options.out:
        raise SpecError("--out must name a folder, got ''")
    folder, settings = Path(options.out), lab.Settings(options.seed, options.quick, options.data)
    store.check_ready(folder)
    results: dict[str, store.Result] = {}
    try:
        _obtain(chosen, settings, options, results)
    except KeyboardInterrupt:
        say(f"interrupted: {len(results)} of {len(chosen)} results are in {folder}; "
            "the same command without --force goes on")  # fmt: skip
        raise
    _write_page(results, settings, folder)
    if options.json:
        print_json([_summary(result) for result in results.values()])
    else:
        print(_table(list(results.values())))
        print(f"wrote {folder / 'index.html'}")


def _obtain(
    chosen: list[lab.Experiment[Any]],
    settings: lab.Settings,
    options: argparse.Namespace,
    results: dict[str, store.Result],
) -> None:
    """Add one result after another to `results`, which keeps them where this is interrupted."""
    for number, experiment in enumerate(chosen, 1):
        label = f"{experiment.name} ({number} of {len(chosen)})"
        with Progress(label, _STEPS) as progress:
            results[experiment.name] = store.obtain(
                experiment,
                settings,
                Path(options.out),
                force=options.force,
                tick=lambda part, bar=progress: bar.show(round(part * _STEPS)),  # type: ignore[misc]
            )


def _write_page(results: dict[str, store.Result], settings: lab.Settings, folder: Path) -> None:
    """A page of these results and of all that earlier runs with the same settings left."""
    shown = []
    for experiment in lab.EXPERIMENTS:
        if experiment.name in results:
            shown.append(results[experiment.name])
        elif store.finished(experiment, settings, folder) is not None:
            shown.append(store.obtain(experiment, settings, folder))
    store.write_page(folder, page.render(shown, settings))


def _summary(result: store.Result) -> dict[str, Any]:
    compared = [row for row in result.rows if isinstance(row, Comparison) and row.printed]
    return {
        "name": result.experiment.name,
        "rows": len(result.rows),
        "printed": len(compared),
        "departures": len(departures(compared)),
        "computed": result.fresh,
    }


def _table(results: list[store.Result]) -> str:
    cells = []
    for found in map(_summary, results):
        state = "computed" if found["computed"] else "was there"
        numbers = (str(found[key]) for key in ("rows", "printed", "departures"))
        cells.append((found["name"], *numbers, state))
    titles = ("name", "rows", "printed", "departures", "state")
    return table(titles, cells, right="rows,printed,departures")
