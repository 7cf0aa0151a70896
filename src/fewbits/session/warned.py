"""Warnings that point at the user's own line, not at a line of fewbits."""

import sys
import warnings
from pathlib import Path
from types import FrameType

_ROOT = str(Path(__file__).parents[1])


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn the nearest caller that is no module of fewbits."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_ROOT):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1 if frame is not None else 2)
