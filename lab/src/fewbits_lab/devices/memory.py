"""Memory of the emulated machine: pieces at their addresses, and what blocks share."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits_lab.devices.ptx import PtxError

Lanes = npt.NDArray[Any]


class GlobalMemory:
    """Pieces of the host's memory under their own addresses; whatever lies between is nobody's."""

    def __init__(self) -> None:
        self._pieces: dict[int, npt.NDArray[np.uint8]] = {}
        self._starts = np.zeros(0, np.uint64)
        self._sorted: list[npt.NDArray[np.uint8]] = []

    def add(self, array: npt.NDArray[Any]) -> int:
        """Let programs touch an array; its address."""
        data = array.reshape(-1).view(np.uint8)
        return self.add_at(int(data.ctypes.data), data)

    def add_at(self, address: int, data: npt.NDArray[np.uint8]) -> int:
        """Let programs touch these bytes at an address; a part of what is known adds nothing."""
        end = address + data.size
        known = self._pieces.items()
        if data.size and not any(at <= address and end <= at + own.size for at, own in known):
            inside = [at for at, own in known if address <= at and at + own.size <= end]
            for at in inside:
                del self._pieces[at]
            self._pieces[address] = data
            self._starts = np.array(sorted(self._pieces), np.uint64)
            self._sorted = [self._pieces[int(start)] for start in self._starts]
        return address

    def load(self, addresses: Lanes, size: int) -> Lanes:
        out = np.empty(addresses.size, f"u{size}")
        for lanes, view, index in self._places(addresses, size):
            out[lanes] = view[index]
        return out

    def store(self, addresses: Lanes, values: Lanes, size: int) -> None:
        for lanes, view, index in self._places(addresses, size):
            view[index] = values[lanes]
            if not np.array_equal(view[index], values[lanes]):
                raise PtxError("threads store different values at one address")

    def _places(self, addresses: Lanes, size: int) -> list[tuple[Any, Lanes, Lanes]]:
        """For each piece that is touched: which lanes, its memory as items, their indices."""
        if not addresses.size:
            return []
        number = np.searchsorted(self._starts, addresses, "right").astype(np.int64) - 1
        if number.min() < 0:
            raise PtxError(f"stray access at {int(addresses[number.argmin()]):#x}")
        found = []
        for own in np.unique(number):
            lanes = slice(None) if (number == own).all() else np.flatnonzero(number == own)
            at = addresses[lanes] - self._starts[own]
            data = self._sorted[int(own)]
            if int(at.max()) + size > data.size:
                raise PtxError(
                    f"stray access {int(at.max()) + size - data.size} bytes behind"
                    f" {data.size} bytes"
                )
            skip = int(-int(self._starts[own]) % size)
            items = (data.size - skip) // size
            view = data[skip : skip + items * size].view(f"u{size}")
            found.append((lanes, view, (at - np.uint64(skip)) // np.uint64(size)))
        return found


class SharedMemory:
    """Memory of some blocks, each of its own; sees accesses that no barrier keeps apart."""

    def __init__(self, blocks: int, size: int) -> None:
        self.size = size
        self._room = (size + 15) // 16 * 16
        self._data = np.zeros((blocks, self._room), np.uint8)
        self._writer = np.full((blocks, self._room), -1, np.int16)
        self._reader = np.full((blocks, self._room), -1, np.int16)

    def part(self, blocks: Lanes) -> "SharedMemory":
        own = SharedMemory(0, self.size)
        for name in ("_data", "_writer", "_reader"):
            setattr(own, name, getattr(self, name)[blocks])
        return own

    def barrier(self) -> None:
        """What was written before is now seen by all."""
        self._writer.fill(-1)
        self._reader.fill(-1)

    def load(self, block: Lanes, warp: Lanes, addresses: Lanes, size: int) -> Lanes:
        at = self._at(block, addresses, size)
        for byte in range(size):
            writer = self._writer.reshape(-1)[at + byte]
            if ((writer >= 0) & (writer != warp)).any():
                raise PtxError("a warp reads what another wrote, and no barrier stands between")
            reader = self._reader.reshape(-1)[at + byte]
            many = (reader >= 0) & (reader != warp)
            self._reader.reshape(-1)[at + byte] = np.where(many, np.int16(32767), warp)
        found: Lanes = self._data.reshape(-1).view(f"u{size}")[at // size]
        return found

    def store(self, block: Lanes, warp: Lanes, addresses: Lanes, values: Lanes, size: int) -> None:
        at = self._at(block, addresses, size)
        for byte in range(size):
            for kept in (self._writer.reshape(-1)[at + byte], self._reader.reshape(-1)[at + byte]):
                if ((kept >= 0) & (kept != warp)).any():
                    raise PtxError("a warp overwrites what another uses, with no barrier between")
            self._writer.reshape(-1)[at + byte] = warp
        view = self._data.reshape(-1).view(f"u{size}")
        view[at // size] = values
        if not np.array_equal(view[at // size], values):
            raise PtxError("threads store different values at one place of shared memory")

    def _at(self, block: Lanes, addresses: Lanes, size: int) -> Lanes:
        if addresses.size and int(addresses.max()) + size > self.size:
            raise PtxError(f"stray access to shared memory at {int(addresses.max()):#x}")
        return block.astype(np.int64) * self._room + addresses.astype(np.int64)
