"""The work of `fewbits switch`: runs one aggregator in this process until a signal ends it."""

import signal
import sys
from collections.abc import Callable
from types import FrameType

from fewbits.errors import SpecError
from fewbits.switch.aggregator import Aggregator, AggregatorSetup
from fewbits.switch.keys import SwitchKey
from fewbits.switch.protocol import Address

_LABELS = {
    "jobs": "jobs begun",
    "packets": "packets received",
    "bytes": "bytes received",
    "packets_sent": "packets sent",
    "bytes_sent": "bytes sent",
    "codes": "codes summed",
    "sums": "sums of all workers",
    "nonfinite": "of them with a NaN or an infinity",
    "duplicates": "packets received again",
    "stale": "packets of other rounds",
    "foreign": "packets of other jobs, workers or addresses",
    "malformed": "packets that are none of ours",
    "mismatched": "packets that contradict earlier ones",
    "forged": "packets with a wrong tag",
    "replayed": "packets with a right tag, but sent before",
}


def run(
    bind: Address,
    setup: AggregatorSetup,
    *,
    key: SwitchKey | None,
    insecure: bool,
    listening: Callable[[Aggregator], None],
    asked: Callable[[Aggregator], None],
) -> None:
    """Serve until SIGINT or SIGTERM.

    Calls `listening` when the socket is open, and `asked` at every SIGUSR1 and at the end.
    """
    if sys.platform != "linux":
        raise SpecError("fewbits switch runs on Linux only")
    with Aggregator(bind, setup, key=key, insecure=insecure) as own:
        questions: list[int] = []

        def end(_number: int, _frame: FrameType | None) -> None:
            own.stop()

        def ask(number: int, _frame: FrameType | None) -> None:
            questions.append(number)

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGUSR1, ask)
        listening(own)
        while not own.stopped:
            own.serve_for(0.25)
            if questions:
                questions.clear()
                asked(own)
        asked(own)


def greeting(own: Aggregator) -> str:
    """The lines that say where an aggregator listens, for how many workers, and its memory."""
    return (
        f"listening on {own.address} for {own.setup.workers} workers, {own.setup.slots} slots "
        f"of {own.slot_bytes / 1024:.1f} KiB, {own.memory_bytes / 2**20:.1f} MiB in all, "
        f"{'with a key' if own.keyed else 'without a key'}"
    )


def statistics(own: Aggregator) -> str:
    counts = own.report()
    return "\n".join(f"{counts[name]:>16,}  {text}" for name, text in _LABELS.items())
