"""The programs that make links: found, or named in one line when they are missing."""

import os
import shutil
import subprocess
import sys

from fewbits.errors import SpecError

_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}
_TIMEOUT = 30.0  # seconds for a command that takes milliseconds


def check_ready() -> None:
    """Refuse, in one line, where the laboratory cannot work."""
    if sys.platform != "linux":
        raise SpecError(f"fewbits-lab link needs network namespaces: Linux, not {sys.platform}")
    if os.geteuid() != 0:
        raise SpecError("fewbits-lab link makes network namespaces: run it as root")
    for program in ("ip", "tc"):
        check_installed(program)


def check_installed(program: str) -> None:
    """Refuse where a program is missing."""
    if shutil.which(program) is None:
        raise SpecError(f"fewbits-lab link needs {program}: apt install {_PACKAGES[program]}")


def run(*words: str) -> None:
    """Run a command; what it complains of is a `SpecError`."""
    done = _done(words)
    if done.returncode:
        complaint = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
        raise SpecError(f"{' '.join(words)}: {complaint}")


def works(*words: str) -> bool:
    """Whether a command succeeds."""
    return _done(words).returncode == 0


def _done(words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT,
            start_new_session=True,  # Ctrl-C must not leave half a command behind
        )
    except subprocess.TimeoutExpired as error:
        raise SpecError(f"{' '.join(words)}: no answer within {_TIMEOUT:g} s") from error
