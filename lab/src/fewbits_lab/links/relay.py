"""A switch in user space that holds every frame back for a while: delay without `netem`.

Runs as a program of its own in the hub's namespace: `relay.py PORTS SECONDS`. It makes a TAP device
for each port, says `ready` and ends when its standard input closes. Frames come with the kernel's
notes on segmentation and are given back with them, so that 64 KB are one frame here although the
links keep their MTU: a Python loop must not see more than some ten thousand frames a second.

Standard library only: it starts in a tenth of a second.
"""

import contextlib
import os
import select
import struct
import sys
import time
from collections import deque
from collections.abc import Sequence

TAP = "tap{}"
_MAC = "02:fb:00:00:00:{:02x}"
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x2, 0x1000, 0x4000
_CHECKSUMS_AND_TCP = 0x1 | 0x2 | 0x4  # partial checksums; TCP over IPv4 and IPv6 unsegmented
_NOTES = 10  # bytes of the kernel's notes before a frame
_LARGEST = 1 << 17
_BATCH = 64  # frames of one port before another has its turn


def address(port: int) -> str:
    """The hardware address of the rank behind a port: its last byte says which it is."""
    return _MAC.format(port)


def opened(port: int) -> int:
    """A new TAP device's descriptor."""
    import fcntl  # not on every system that imports this module

    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", TAP.format(port).encode(), flags))
    fcntl.ioctl(device, _TUNSETOFFLOAD, _CHECKSUMS_AND_TCP)
    return device


def forward(devices: Sequence[int], delay: float, *, until_closed: int = 0) -> None:
    """Pass frames on, each `delay` seconds after it came, until that descriptor closes."""
    waiting: deque[tuple[float, int, bytes]] = deque()  # one delay for all: first in, first out
    watched = [until_closed, *devices]
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select(watched, [], [], pause)
        if until_closed in ready:
            if not os.read(until_closed, 1):
                return
            ready.remove(until_closed)
        for device in ready:
            _take(device, devices, delay, waiting)
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, device, frame = waiting.popleft()
            with contextlib.suppress(OSError):  # a full device loses frames, as a full link does
                os.write(device, frame)


def _take(
    source: int, devices: Sequence[int], delay: float, waiting: deque[tuple[float, int, bytes]]
) -> None:
    for _ in range(_BATCH):
        try:
            frame = os.read(source, _LARGEST)
        except OSError:
            return
        due = time.monotonic() + delay
        waiting.extend((due, device, frame) for device in _targets(frame, source, devices))


def _targets(frame: bytes, source: int, devices: Sequence[int]) -> list[int]:
    """The device that the frame's address names; all others for a broadcast."""
    if len(frame) < _NOTES + 6:
        return []
    if frame[_NOTES] & 1:
        return [device for device in devices if device != source]
    port = frame[_NOTES + 5]
    return [devices[port - 1]] if 1 <= port <= len(devices) else []


def main() -> None:
    """The program."""
    ports, delay = int(sys.argv[1]), float(sys.argv[2])
    devices = [opened(port) for port in range(1, ports + 1)]
    os.write(1, b"ready\n")
    forward(devices, delay)


if __name__ == "__main__":
    main()
