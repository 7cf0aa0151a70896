"""A TCP proxy that counts: one for each node, between it and the SuperLink."""

import socket
import threading
import time
from contextlib import suppress
from typing import Literal, NamedTuple

_CHUNK = 1 << 16
Way = Literal["up", "down"]


class Passage(NamedTuple):
    """Bytes that went through, and when."""

    time: float
    way: Way
    bytes: int


class Meter:
    """Listens on a port of its own and passes everything on to `target`."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.passages: list[Passage] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """The address to which a node connects."""
        host, port = self._listener.getsockname()[:2]
        return f"{host}:{port}"

    def count(self, way: Way, start: float, end: float) -> int:
        """Bytes in one direction between two moments."""
        with self._lock:
            return sum(p.bytes for p in self.passages if p.way == way and start <= p.time < end)

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:  # closed
                return
            try:
                outer = socket.create_connection(self._target)
            except OSError:
                inner.close()
                continue
            with self._lock:
                self._open |= {inner, outer}
            for source, sink, way in ((inner, outer, "up"), (outer, inner, "down")):
                threading.Thread(target=self._pass, args=(source, sink, way), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, way: Way) -> None:
        try:
            while data := source.recv(_CHUNK):
                with self._lock:
                    self.passages.append(Passage(time.time(), way, len(data)))
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)  # the other direction may go on
        except OSError:
            for end in (source, sink):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End every connection."""
        self._listener.close()
        with self._lock:
            for one in self._open:
                one.close()

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
