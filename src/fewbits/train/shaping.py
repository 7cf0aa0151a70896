"""What shapes links: the commands that do it, the words for a rate, processes that end in time."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence

from fewbits.errors import SpecError

VETH = "veth0"  # of every rank, in its namespace
_QUEUE = "50ms"  # of packets that wait for a link before some are dropped
_BURST_SECONDS = 1e-3  # of the rate may leave at once: as much as a timer fires late
_TIMEOUT = 30.0  # seconds for a command that takes milliseconds
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")  # where tc is, and no ordinary user's PATH


def burst_bytes(rate: float, least: int) -> int:
    """Bytes that may leave at once on a link of so many bits a second."""
    return int(max(least, rate / 8 * _BURST_SECONDS))


def tbf(rate: float, burst: int) -> tuple[str, ...]:
    """The words for `tc` that limit a device to so many bits a second."""
    return ("tbf", "rate", f"{rate:.0f}bit", "burst", str(burst), "latency", _QUEUE)


def found(program: str) -> str | None:
    """The path of a program, also of one that is for administrators; None if it is missing."""
    folders = [os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS]
    return shutil.which(program, path=os.pathsep.join(folders))


def run(*words: str, lines: Sequence[str] = ()) -> None:
    """Run a command, `lines` as its input; what it complains of is a `SpecError`."""
    done = _done(words, lines)
    if done.returncode:
        complaint = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[0]
        raise SpecError(f"{' '.join(words)}: {complaint}")


def works(*words: str) -> bool:
    """Whether a command succeeds."""
    return _done(words, ()).returncode == 0


def _done(words: tuple[str, ...], lines: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT,
            start_new_session=True,  # Ctrl-C must not leave half a command behind
        )
    except subprocess.TimeoutExpired as error:
        raise SpecError(f"{' '.join(words)}: no answer within {_TIMEOUT:g} s") from error
    except OSError as error:
        raise SpecError(f"{words[0]}: {error.strerror}") from error


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process of ours if it still runs, and free its pipes."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
