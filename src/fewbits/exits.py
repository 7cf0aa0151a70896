"""Exit codes of the programs, and the end of those whose starter has gone."""

import os
import threading

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
