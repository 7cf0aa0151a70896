"""The programs that make links: found, or named in one line when they are missing."""

import os
import shutil
import sys

from fewbits.errors import SpecError

_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}


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
