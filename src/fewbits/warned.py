"""Warnings that point at the user's own line, not at a line of fewbits."""

import sys
import warnings
from types import FrameType

_NOT_THE_USERS = {"fewbits", "torch"}  # torch calls us within the user's `backward()`


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn the nearest caller that is no module of fewbits or torch."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package(frame) in _NOT_THE_USERS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1 if frame is not None else 2)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
