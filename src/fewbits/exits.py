"""Exit codes of the programs, and the code of an error."""

from fewbits.errors import DisagreementError, PeerError

FAILED = 1  # a run, a rank or an aggregator; what was asked for made sense
BAD_INPUT = 2
INTERRUPTED = 130  # what shells report for Ctrl-C
BROKEN_PIPE = 141  # and for a reader that has gone


def exit_code(error: BaseException) -> int:
    """The code of a program that ends with this error."""
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return FAILED if isinstance(error, PeerError | DisagreementError) else BAD_INPUT
