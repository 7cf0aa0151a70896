"""`python -m fewbits.train`: a worker where the environment names its rank, else the whole job.

```
torchrun --nproc-per-node 2 -m fewbits.train --operator none --operator natural
```
"""

import argparse
import json
import os
import sys
from typing import Any, NoReturn

from fewbits.errors import FewbitsError, SpecError
from fewbits.train import compare, data, settings
from fewbits.train.extras import check_installed
from fewbits.train.progress import Progress
from fewbits.train.settings import Settings

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class _Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def error(self, message: str) -> NoReturn:
        raise SpecError(f"{message} (see '{self.prog} --help')")


def main(arguments: list[str] | None = None) -> int:
    """0; 2 after a line about what was wrong with the input; 1 after a line about a failure."""
    parser = _Parser(prog="python -m fewbits.train", allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--events", action="store_true", help=argparse.SUPPRESS)
    settings.add_arguments(parser)
    try:
        options = parser.parse_args(arguments)
        if "RANK" in os.environ:
            _worker(options)
        compare.check_report(options.report)
        document, failure = compare.run(settings.from_options(options))
    except KeyboardInterrupt:
        return INTERRUPTED
    except FewbitsError as error:
        return _complain(str(error), BAD_INPUT)
    if document is not None:
        _print(document, options)
    return 0 if failure is None else _complain(str(failure), FAILED)


def _worker(options: argparse.Namespace) -> NoReturn:
    try:
        chosen = settings.from_options(options, workers=int(os.environ["WORLD_SIZE"]))
        compare.check_report(options.report)
        _work(chosen, options)
    except SpecError as error:
        # At once, without the interpreter's farewell: until then the sockets stay open, so other
        # ranks fail later than this one and the first to end is the one to look at.
        _leave(str(error), BAD_INPUT)
    except Exception as error:  # whatever it is, the user gets one line
        _leave(" ".join(f"{type(error).__name__}: {error}".split()), FAILED)
    # At once here too: ranks leave one after the other, and gloo's threads see the first ones'
    # sockets close while the interpreter tears down what they use, which has ended in SIGABRT.
    sys.stdout.flush()
    os._exit(0)


def _work(chosen: Settings, options: argparse.Namespace) -> None:
    check_installed("torch")
    check_installed("safetensors")
    dataset = data.load(chosen.data)
    from fewbits.train import worker  # torch comes with it: seconds, which bad data need not wait

    if options.events:
        worker.end_with_parent()
        worker.work(chosen, dataset, _emit)
        return
    progress = _Follow(chosen)
    document = compare.together(chosen, worker.work(chosen, dataset, progress.show))
    if os.environ["RANK"] == "0" and document is not None:
        _print(document, options)


class _Follow:
    """Progress over several runs in one process."""

    def __init__(self, chosen: Settings) -> None:
        self._left = list(chosen.operators)
        self._progress: Progress | None = None

    def show(self, event: dict[str, Any]) -> None:
        """Take an event; a result ends a run."""
        if event["event"] == "result":
            if self._progress is not None:
                self._progress.close()
            self._progress = None
            return
        if self._progress is None:
            self._progress = Progress(self._left.pop(0))
        self._progress.show(event)


def _emit(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _print(document: dict[str, Any], options: argparse.Namespace) -> None:
    text = compare.publish(document, options.report)
    sys.stdout.write((json.dumps(document, allow_nan=False) if options.json else text) + "\n")
    sys.stdout.flush()


def _leave(message: str, code: int) -> NoReturn:
    _complain(message, code)
    os._exit(code)


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"fewbits: {message}\n")
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    sys.exit(main())
