"""Numbers of any width to and from bytes, the least significant bit first; for references."""

from fewbits.errors import DecodeError


class BitString:
    """Numbers of some bits each, least significant bit first."""

    def __init__(self) -> None:
        self.value, self.bits = 0, 0

    def put(self, value: int, width: int) -> None:
        self.value |= value << self.bits
        self.bits += width

    def to_bytes(self) -> bytes:
        return self.value.to_bytes((self.bits + 7) // 8, "little")


class Source:
    """Reads a block's bytes; refuses to read beyond the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if len(self.data) - self.at < size:
            raise DecodeError("a coded block ends before its codes or signs do")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")


class BitSource:
    """Reads numbers from a block's bytes, byte by byte."""

    def __init__(self, source: Source) -> None:
        self.source, self.value, self.bits = source, 0, 0

    def take(self, width: int) -> int:
        while self.bits < width:
            self.value |= self.source.number(1) << self.bits
            self.bits += 8
        value = self.value & ((1 << width) - 1)
        self.value >>= width
        self.bits -= width
        return value
