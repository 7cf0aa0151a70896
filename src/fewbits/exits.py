"""Exit codes of the programs, and the end of those whose starter has gone."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fewbits.errors import DisagreementError, PeerError

FAILED = 1  # a run, a rank or an aggregator; what was asked for made sense
BAD_INPUT = 2
INTERRUPTED = 130  # what shells report for Ctrl-C
BROKEN_PIPE = 141  # and for a reader that has gone
TERMINATED = 143  # and for SIGTERM


def exit_code(error: BaseException) -> int:
    """The code of a program that ends with this error."""
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return FAILED if isinstance(error, PeerError | DisagreementError) else BAD_INPUT


def end_with_parent() -> None:
    """End this process when stdin closes, because the process that started it has gone."""

    def watch() -> None:
        # Not sys.stdin: its lock, held by this thread, would abort the interpreter's shutdown.
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the program by `SystemExit`, so that what was begun is cleaned up."""

    def end(*_: object) -> None:
        raise SystemExit(TERMINATED)

    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
