"""`fewbits lab`: the evidence computed anew, and one page with all of it."""

import argparse
from pathlib import Path
from typing import Any

from fewbits import lab
from fewbits.cli.console import Progress, Subcommands, add_command, print_json, say, table
from fewbits.errors import SpecError
from fewbits.lab import folder, store
from fewbits.lab.printed import Comparison, departures
from fewbits.lab.recorded import record

_STEPS = 1000  # of the progress bar
_SEEDS = 2**31


def register(commands: Subcommands) -> None:
    """Add the command's parsers."""
    parser = commands.add_parser(
        "lab",
        help="the evidence for what fewbits and its papers claim, computed anew",
        description="The evidence for what fewbits and its papers claim, computed anew, as one "
        "page with figures as SVG and numbers as CSV and JSON beside it.",
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="list|run|all", required=True)
    add_command(verbs, "list", summary="what there is", example="fewbits lab list", run=run_list)
    run = add_command(
        verbs,
        "run",
        summary="compute some of them, and write JSON, CSV, SVG and index.html",
        example="fewbits lab run nc-table1 oc-spherical --out results",
        run=run_some,
    )
    run.add_argument("names", nargs="+", metavar="NAME", help="see 'fewbits lab list'")
    every = add_command(
        verbs,
        "all",
        summary="compute all of them, and write JSON, CSV, SVG and index.html",
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
        verb.add_argument(
            "--recorded",
            metavar="DIR",
            help="a folder of recorded results to show as well"
            + (" (default: benchmarks/results of the checkout)" if verb is every else ""),
        )


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
    """Compute all, and show what is recorded."""
    if options.recorded is None:
        options.recorded = record.checkout()
    _run(list(lab.EXPERIMENTS), options)


def _run(chosen: list[lab.Experiment[Any]], options: argparse.Namespace) -> None:
    if not options.out:
        raise SpecError("--out must name a folder, got ''")
    if options.data is not None and not (options.data and Path(options.data).is_dir()):
        raise SpecError(f"--data must be a folder of data sets, got {options.data!r}")
    out, settings = Path(options.out), lab.Settings(options.seed, options.quick, options.data)
    store.check_ready(out)
    if not options.force:
        for experiment in chosen:  # all of them before the first is computed
            store.check_free(experiment, settings, out)
    if options.recorded is not None:
        folder.take(Path(options.recorded), out)
    results: dict[str, store.Result] = {}
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


def _summary(result: store.Result) -> dict[str, Any]:
    compared = [row for row in result.rows if isinstance(row, Comparison) and row.printed]
    return {
        "name": result.experiment.name,
        "rows": len(result.rows),
        "printed": len(compared),
        "departures": len(departures(compared)),
        "computed": result.fresh,
        "seconds": result.made.get("seconds"),
    }


def _table(results: list[store.Result]) -> str:
    cells = []
    for found in map(_summary, results):
        state = "computed" if found["computed"] else "was there"
        numbers = (str(found[key]) for key in ("rows", "printed", "departures"))
        spent = "" if found["seconds"] is None else f"{found['seconds']:.1f}"
        cells.append((found["name"], *numbers, spent, state))
    titles = ("name", "rows", "printed", "departures", "seconds", "state")
    return table(titles, cells, right="rows,printed,departures,seconds")
