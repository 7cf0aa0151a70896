"""Parts of a section that threads write apart, and that end up one after the other."""

import ctypes
import threading

from fewbits.backend.buffers import Buffer


class JoinedSection:
    """Moves parts together at the front of a section, each once those before it are there.

    A thread that has written a part moves it and all that waited for it. So little is left to move
    when the last part is written, and what is moved was just written. A part never begins before
    the end of those before it, where they have moved to.
    """

    def __init__(self, section: Buffer) -> None:
        self._address, self._lock = section.address, threading.Lock()
        self._waiting: dict[int, tuple[int, int]] = {}
        self._next, self.size = 0, 0

    def add(self, number: int, start: int, size: int) -> None:
        """Part `number` has been written to `start`."""
        with self._lock:
            self._waiting[number] = start, size
            while (part := self._waiting.pop(self._next, None)) is not None:
                start, size = part
                if start != self.size:
                    ctypes.memmove(self._address + self.size, self._address + start, size)
                self.size += size
                self._next += 1
