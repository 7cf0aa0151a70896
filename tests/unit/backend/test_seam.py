"""One way in: tables of rows of every kind give what operators give alone."""

import numpy as np
import pytest

import fewbits
from fewbits import DecodeError, Rng, SpecError, backend
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Kind
from fewbits.backend.table import Table
from fewbits.core.operator import Operator
from fewbits.core.vector import Vector
from fewbits.reference.formats import FLOAT16, FLOAT32, FLOAT64, Format
from fewbits.reference.tally import Tally, total

SPECS = (
    "natural",
    "natural:rounding=nearest,coder=rans",
    "bfloat16",
    "natural-dithering",
    "standard-dithering:coder=rans,block=64",
    "sparse-dithering:rounding=subtractive",
    "spherical:alpha=0.9",
    "sign:block=32",
    "top-k|natural",
    "top-k:fraction=0.7|hadamard:signs=private|spherical:alpha=0.9",
    "rand-k|standard-dithering",
)
COUNTS = (1, 64, 77, 200)
formats = pytest.mark.parametrize("format", [FLOAT32, FLOAT64, FLOAT16], ids=lambda f: f.name)


class Rows:
    """A row for every operator and count, with memory for all of them."""

    def __init__(self, operators: list[Operator], format: Format) -> None:
        self.format = format
        self.rows = [(own, count) for count in COUNTS for own in operators]
        counts = np.array([count for _, count in self.rows])
        self.starts = np.cumsum(counts) - counts
        normal = np.random.default_rng(1).standard_normal(counts.sum())
        kind = {2: np.float16, 4: np.float32, 8: np.float64}[format.itemsize]
        self.values = normal.astype(kind).view(format.bits)
        self.sizes = [
            [section.size for section in own.layout(count, format)] for own, count in self.rows
        ]
        columns = max(map(len, self.sizes))
        self.table = Table(len(self.rows), columns)
        largest = np.zeros((len(self.rows), columns), np.uint64)
        for number, ((own, count), sizes) in enumerate(zip(self.rows, self.sizes, strict=True)):
            kernel = own.kernel(count, format)
            self.table.describe(number, kernel, format, count, len(sizes))
            largest[number, : len(sizes)] = sizes
        ends = np.cumsum(largest.reshape(-1), dtype=np.uint64).reshape(largest.shape)
        self.offsets, self.memory = ends - largest, Buffer.zeros(int(ends[-1, -1]))
        self.table.place(slice(None), self.memory, self.offsets, largest)
        rng = Rng.from_seed(4)
        self.streams = [rng.fork(number) for number in range(len(self.rows))]
        self.table.set_keys(slice(None), [stream.key for stream in self.streams])

    def bind(self, values: np.ndarray) -> None:
        offsets = (self.starts * values.itemsize).astype(np.uint64)
        self.table.bind(Buffer.of(values), offsets)

    def part(self, number: int, values: np.ndarray) -> np.ndarray:
        start = self.starts[number]
        return values[start : start + self.rows[number][1]]

    def sections(self, number: int) -> list[bytes]:
        used = self.table.sizes(slice(None), self.offsets.shape[1])[number].tolist()
        places = zip(self.offsets[number].tolist(), used, strict=True)
        return [self.memory[at : at + size].tobytes() for at, size in places]

    def alone(self, number: int) -> tuple[Tally, list[bytes]]:
        own, _ = self.rows[number]
        into = tuple(np.zeros(size, np.uint8) for size in self.sizes[number])
        x = Vector(self.part(number, self.values), self.format)
        tally, sizes = own.encode(x, self.streams[number], into)
        return tally, [part[:size].tobytes() for part, size in zip(into, sizes, strict=True)]


@formats
@pytest.mark.parametrize("threads", [1, 3])
def test_a_table_of_all_kinds_is_its_rows(format: Format, threads: int) -> None:
    rows = Rows([fewbits.operator(spec) for spec in SPECS], format)
    assert 0 < np.count_nonzero(rows.table.native) < len(rows.rows)
    rows.bind(rows.values)
    backend.at("cpu").run("encode", rows.table, threads=threads)
    alone = [rows.alone(number) for number in range(len(rows.rows))]
    assert rows.table.tally() == total([tally for tally, _ in alone])
    for number, (_, parts) in enumerate(alone):
        assert rows.sections(number)[: len(parts)] == parts, rows.rows[number]

    decoded, totals = np.empty_like(rows.values), np.ones(rows.values.size, np.float32)
    if format == FLOAT64:
        totals = totals.astype(np.float64)
    rows.bind(decoded)
    backend.at("cpu").run("decode", rows.table, threads=threads)
    wanted, sums = np.empty_like(decoded), totals.copy()
    for number, (own, _) in enumerate(rows.rows):
        parts = tuple(np.frombuffer(part, np.uint8) for part in alone[number][1])
        own.decode(parts, Vector(rows.part(number, wanted), format))
        own.accumulate(parts, format, rows.part(number, sums))
    assert decoded.tobytes() == wanted.tobytes()
    assert decoded.any()
    rows.bind(totals)
    backend.at("cpu").run("accumulate", rows.table, threads=threads)
    assert totals.tobytes() == sums.tobytes()


def test_an_error_names_the_row_whatever_its_kind() -> None:
    rows = Rows([fewbits.operator(spec) for spec in SPECS], FLOAT32)
    rows.bind(rows.values)
    backend.at("cpu").run("encode", rows.table)
    for spec, which in (("natural", 1), ("sign:block=32", 1), ("top-k|natural", 0)):
        number = next(
            at for at, (own, count) in enumerate(rows.rows) if own.spec == spec and count == 77
        )
        at = int(rows.offsets[number, which])
        size = int(rows.table.sizes(slice(None), which + 1)[number, which])
        section = rows.memory[at : at + size].array()
        good = section.copy()
        section[:] = 0xFF
        for threads in (1, 2):
            with pytest.raises(DecodeError) as caught:
                backend.at("cpu").run("decode", rows.table, threads=threads)
            assert caught.value.row == number
        section[:] = good
    backend.at("cpu").run("decode", rows.table)


def test_memory_elsewhere_is_refused_in_one_line() -> None:
    for device, reason in (("cuda:0", "torch finds no device"), ("tpu", "no backend for memory")):
        there = Buffer(4096, 8, device)
        with pytest.raises(SpecError, match=f"{reason}.* on '{device}'"):
            backend.of(there)
        with pytest.raises(SpecError, match=f"{reason}.* on '{device}'"):
            Buffer.zeros(8, device)
        with pytest.raises(RuntimeError, match="array of the host"):
            there.array()
    table = Table(1)
    table.describe(0, Kernel(Kind.CLEAR), FLOAT32, 2)
    table.bind(there, np.zeros(1, np.uint64))
    with pytest.raises(SpecError, match="no backend"):
        backend.at(table.device)


def test_buffers_are_views_that_keep_their_owner() -> None:
    array = np.arange(10, dtype=np.uint32)
    whole = Buffer.of(array)
    assert (whole.size, len(whole), whole.address) == (40, 40, array.ctypes.data)
    part = whole[4:20]
    assert (part.size, part.address) == (16, whole.address + 4)
    part.array(np.uint32)[:] = 7
    assert array.tolist() == [0, 7, 7, 7, 7, 5, 6, 7, 8, 9]
    assert part[:0].size == part[9:3].size == 0
    assert whole[-4:].tobytes() == b"\t\0\0\0"
    assert Buffer(part.address, 4).array(np.uint32).tolist() == [7]
    with pytest.raises(RuntimeError, match="not contiguous"):
        Buffer.of(array[::2])


def test_sealed_messages_are_judged() -> None:
    message = Buffer.of(np.arange(100, dtype=np.uint8))
    own = backend.of(message)
    assert not own.judge(message)
    own.seal(message)
    assert own.judge(message)
    assert own.crc32c(message[:-4]) == int.from_bytes(message[-4:].tobytes(), "little")
    message.array()[50] ^= 1
    assert not own.judge(message)
