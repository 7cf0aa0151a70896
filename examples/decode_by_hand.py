"""A second decoder of fewbits frames: docs/format.md as a program, laid out like the document.

It shares no code with the library. Anything but a frame raises `ValueError`.

    python examples/decode_by_hand.py FRAME...      prints one line of JSON for each file
"""

import hashlib
import itertools
import json
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # an isolated Python leaves it out
from coded_by_hand import HALVES, PHASED, REVISED, coded, kinds
from dithering_by_hand import DITHERED, dithered
from formats_by_hand import BFLOAT16, FLOAT16, FLOAT64, FORMATS, Format, Parameters
from sparse_by_hand import SPARSE, sparse_dithering
from spherical_by_hand import SPHERICAL, spherical
from stages_by_hand import STAGES, TOP_K
from tables_by_hand import need, packed
from trellis_by_hand import TRELLIS, trellis

MAX_DIMENSIONS, MAX_STAGES, MAX_SECTIONS, MAX_PARAMETERS = 32, 8, 16, 32
MAX_ELEMENTS, CHECKSUM_SIZE = 2**28, 4


class Reader:
    """Little-endian numbers from the front of a frame; the checksum is never part of one."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, size: int) -> int:
        need(len(self.data) - self.at >= size + CHECKSUM_SIZE, "the frame is cut")
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def numbers(self, count: int, size: int) -> list[int]:
        return [self.number(size) for _ in range(count)]


def read_stage(reader: Reader, room: int) -> tuple[int, Parameters]:
    """Section 2.3: a code and at most `room` parameters."""
    code, count = reader.number(2), reader.number(1)
    parameters: Parameters = {}
    for _ in range(count):
        key, kind = reader.numbers(2, 1)
        need(kind in (1, 2, 3, 4), "unknown parameter type")
        need(key > max(parameters, default=-1), "parameters are out of order")
        need(len(parameters) < room, "too many parameters")
        value = reader.number({1: 1, 2: 8, 3: 8, 4: 16}[kind])
        finite = value % (1 << 63) < FLOAT64.infinity
        need(kind != 3 or (finite and value != 1 << 63), "not a canonical number")
        parameters[key] = kind, value
    return code, parameters


def crc32c(data: bytes) -> int:
    """Section 2.6."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


Parsed = tuple[int, Format, bool, list[int], list[tuple[int, Parameters]], list[bytes]]


def parse(data: bytes) -> Parsed:
    """Chapter 2: version, format, whether some value is not finite, shape, stages and sections."""
    reader = Reader(data)
    need(bytes(reader.numbers(4, 1)) == b"fewb", "not a fewbits frame")
    version, flags, dtype, dimensions, stage_count, section_count = reader.numbers(6, 1)
    need(version in (1, 2, 3, 4), "unknown wire version")
    need(flags < 8, "reserved flags are set")
    need(dtype in FORMATS, "unknown dtype")
    need(dimensions <= MAX_DIMENSIONS and section_count <= MAX_SECTIONS, "too many")
    need(1 <= stage_count <= MAX_STAGES, "no stage, or too many")
    width = 1 << (flags & 3)
    shape = reader.numbers(dimensions, width)
    need(math.prod(max(extent, 1) for extent in shape) <= MAX_ELEMENTS, "too many elements")
    stages: list[tuple[int, Parameters]] = []
    for _ in range(stage_count):
        stages.append(read_stage(reader, MAX_PARAMETERS - sum(len(own) for _, own in stages)))
    lengths = reader.numbers(section_count, width)
    need(width == 1 or max(shape + lengths, default=0) >= 1 << (4 * width), "words too wide")
    end = len(data) - CHECKSUM_SIZE
    need(reader.at + sum(lengths) == end, "the length is not the declared one")
    need(crc32c(data[:end]) == int.from_bytes(data[end:], "little"), "the checksum is wrong")
    ends = list(itertools.accumulate(lengths, initial=reader.at))
    sections = [data[start:stop] for start, stop in itertools.pairwise(ends)]
    return version, FORMATS[dtype], bool(flags & 4), shape, stages, sections


def floats(section: bytes, format: Format, count: int) -> list[int]:
    """Section 4.2: bits, not numbers, so that the payload of a NaN survives."""
    need(len(section) == count * format.size, "a section has the wrong length")
    return Reader(section + bytes(CHECKSUM_SIZE)).numbers(count, format.size)


def cast(sections: list[bytes], format: Format, count: int, sent: Format) -> list[int]:
    """Sections 5.1 and 5.2."""
    need(len(sections) == 1, "wrong number of sections")
    values = floats(sections[0], sent, count)
    if sent is format:
        return values
    result = [format.nearest(sent.value(bits)) for bits in values]
    need([sent.nearest(format.value(bits)) for bits in result] == values, "not what encoders write")
    return result


def natural(sections: list[bytes], format: Format, count: int, entropy: bool) -> list[int]:
    """Section 5.3."""
    need(len(sections) == (1 if entropy else 2), "wrong number of sections")
    if entropy:
        codes, signs = coded(sections[0], format.top + 1, True, count)
    else:
        codes = packed(sections[0], format.exponent, count, format.top + 1)
        signs = packed(sections[1], 1, count, 2)
    pairs = list(zip(codes, signs, strict=True))
    need(all(0 < code < format.top for code, sign in pairs if sign), "a sign on zero or on NaN")
    powers = [code << format.mantissa | sign * format.sign for code, sign in pairs]
    return [format.quiet_nan if power == format.infinity else power for power in powers]


def operator(
    code: int, parameters: Parameters, sections: list[bytes], format: Format, count: int
) -> tuple[str, list[int]]:
    """Sections 5.1 to 5.8 and 5.10: spec and the bits of every value."""
    if code in DITHERED:
        return dithered(code, parameters, sections, format, count)
    if code == SPARSE:
        return sparse_dithering(parameters, sections, format, count)
    if code == TRELLIS:
        return trellis(parameters, sections, format, count)
    if code == SPHERICAL:
        return spherical(parameters, sections, format, count)
    need(code in (1, 2, 3, 4), "unknown operator, or a stage without one after it")
    spec = ["identity", "float16", "bfloat16", "natural"][code - 1]
    names = {0: "rounding=nearest", 1: "coder=rans"} if code == 4 else {}
    need(parameters.keys() <= names.keys(), "unknown parameter")
    need(all(own == (1, 1) for own in parameters.values()), "unknown type or choice")
    spec += ":" * bool(parameters) + ",".join(names[number] for number in parameters)
    sent = {1: format, 2: FLOAT16, 3: BFLOAT16}.get(code)
    if sent:
        return spec, cast(sections, format, count, sent)
    return spec, natural(sections, format, count, 1 in parameters)


def decode(data: bytes) -> tuple[str, Format, list[int], list[int]]:
    """Chapter 5: spec, format, shape and the bits of every value."""
    version, format, nonfinite, shape, stages, sections = parse(data)
    kinds.clear()
    count, needed, specs, joins = math.prod(shape), 1, [], []
    for code, parameters in stages[:-1]:
        need(code in STAGES, "not a stage")
        spec, join, side, reduced = STAGES[code](parameters, format, count, version)
        need(len(sections) >= side, "wrong number of sections")
        joins.append((join, sections[:side], count))
        needed = 2 if code == TOP_K and sections[0] and version > 1 else needed
        sections, count = sections[side:], reduced
        specs.append(spec)
    spec, bits = operator(*stages[-1], sections, format, count)
    for join, side, size in reversed(joins):
        bits = join(side, bits, size)
    some = any(value & format.infinity == format.infinity for value in bits)
    need(some == nonfinite, "the flag for values that are not finite is wrong")
    newest = max(kinds, default=0)
    needed = 3 if newest == PHASED else 2 if newest >= REVISED else needed
    needed = 4 if HALVES in kinds else needed
    need(version == needed, "not the oldest version that would do")
    return "|".join([*specs, spec]), format, shape, bits


def main() -> None:
    """Decode the files named on the command line."""
    for path in sys.argv[1:]:
        spec, format, shape, bits = decode(Path(path).read_bytes())
        raw = b"".join(value.to_bytes(format.size, "little") for value in bits)
        found = {"spec": spec, "dtype": format.name, "shape": shape}
        digest, values = hashlib.sha256(raw).hexdigest(), [format.value(value) for value in bits]
        print(json.dumps(found | {"values_sha256": digest, "values": values}))


if __name__ == "__main__":
    main()
