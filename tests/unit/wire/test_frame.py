"""The frame: one encoding for each header, every limit, and no memory for empty promises."""

import struct
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fewbits
from cases import array, sealed
from fewbits import DecodeError, LimitError, VersionError
from fewbits.backend import library as _native
from fewbits.reference.formats import FLOAT32, FORMATS
from fewbits.wire import frame as wire
from fewbits.wire.frame import Header, Parameter, ParameterType, StageRecord

LIMIT = 2**28


def parse(data: bytes, limit: int = LIMIT) -> wire.Parsed:
    return wire.parse(np.frombuffer(data, np.uint8), limit)


def fixed(version=1, flags=0, dtype=1, dimensions=1, stages=1, sections=1) -> bytes:
    return b"fewb" + bytes([version, flags, dtype, dimensions, stages, sections])


def identity(shape=b"\x02", stage=b"\x01\0\0", lengths=b"\x08", values=bytes(8), **fields) -> bytes:
    """A frame of two float32 zeros with any part replaced."""
    return sealed(fixed(**fields) + shape + stage + lengths + values)


def test_the_model_frame_is_a_frame() -> None:
    frame = identity()
    assert fewbits.decompress(frame).tolist() == [0, 0]
    assert frame == fewbits.compress(np.zeros(2, np.float32), "identity")


@pytest.mark.parametrize("spec", ["natural", "standard-dithering:coder=rans", "top-k|natural"])
def test_a_cut_frame_is_told_its_whole_length(spec: str) -> None:
    """Wherever it is cut behind the header, also before its last section begins."""
    frame = fewbits.compress(np.linspace(-1, 1, 1000, dtype=np.float32), spec, seed=1)
    first = len(frame) - 4 - sum(parse(frame).header.lengths)
    for kept in (*range(first + 4, len(frame), 37), len(frame) - 1):
        told = f"the frame is cut: the header declares {len(frame)} bytes, {kept} given"
        with pytest.raises(DecodeError, match=told):
            fewbits.decompress(frame[:kept])


values = {
    ParameterType.CHOICE: st.integers(0, 255),
    ParameterType.INTEGER: st.integers(-(2**63), 2**63 - 1),
    ParameterType.FLOAT: st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    ParameterType.KEY: st.binary(min_size=16, max_size=16),
}


@st.composite
def stages(draw: st.DrawFn) -> StageRecord:
    numbers = sorted(draw(st.sets(st.integers(0, 255), max_size=3)))
    kinds = [draw(st.sampled_from(list(ParameterType))) for _ in numbers]
    return StageRecord(
        draw(st.integers(0, 65535)),
        tuple(
            Parameter(number, kind, draw(values[kind]))
            for number, kind in zip(numbers, kinds, strict=True)
        ),
    )


headers = st.builds(
    Header,
    format=st.sampled_from(FORMATS),
    shape=st.lists(st.integers(0, 2**40), max_size=5).map(tuple),
    stages=st.lists(stages(), min_size=1, max_size=8).map(tuple),
    lengths=st.lists(st.integers(0, 300), max_size=16).map(tuple),
    nonfinite=st.booleans(),
)


@given(headers)
def test_headers_come_back(header: Header) -> None:
    body = header.encode() + bytes(sum(header.lengths))
    try:
        parsed = parse(sealed(body), 2**64 - 1)
    except LimitError:
        volume = 1
        for extent in header.shape:
            volume *= max(extent, 1)
        assert volume >= 2**64
        return
    assert parsed.header == header
    assert tuple(section.size for section in parsed.sections) == header.lengths
    assert parsed.header.encode() == header.encode()


@given(headers, st.data())
def test_cut_headers_are_refused(header: Header, data: st.DataObject) -> None:
    whole = sealed(header.encode() + bytes(sum(header.lengths)))
    size = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DecodeError):
        parse(whole[:size], 2**64 - 1)
    if size != len(whole) - 4:  # sealing again exactly what the checksum covered mends the frame
        with pytest.raises(DecodeError):
            parse(sealed(whole[:size]), 2**64 - 1)


@given(st.binary(max_size=300))
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    for body in (data, b"fewb" + data, b"fewb\x01\0\x01" + data):
        try:
            parsed = parse(sealed(body), 2**62)
        except DecodeError:
            continue
        again = parsed.header.encode() + b"".join(s.tobytes() for s in parsed.sections)
        assert again == body, "two spellings of one header"


REFUSED = {
    "the frame is cut: 14 bytes needed at least, 13 given": (DecodeError, b"fewb" + bytes(9)),
    "the first bytes are not 'fewb'": (DecodeError, sealed(b"fewc" + identity()[4:-4])),
    "wire version 5, this fewbits reads 1 to 4": (VersionError, identity(version=5)),
    "wire version 0, this fewbits reads 1 to 4": (VersionError, identity(version=0)),
    "reserved flags are set: 0x08": (DecodeError, identity(flags=8)),
    "reserved flags are set: 0x80": (DecodeError, identity(flags=128)),
    "unknown dtype 0": (DecodeError, identity(dtype=0)),
    "unknown dtype 5": (DecodeError, identity(dtype=5)),
    "33 dimensions, at most 32": (DecodeError, identity(dimensions=33, shape=b"\x01" * 33)),
    "0 stages, 1 to 8": (DecodeError, identity(stages=0, stage=b"")),
    "9 stages, 1 to 8": (DecodeError, identity(stages=9, stage=b"\x01\0\0" * 9)),
    "17 sections, at most 16": (DecodeError, identity(sections=17, lengths=bytes(17))),
    "words of 2 bytes where 1 suffice": (
        DecodeError,
        identity(flags=1, shape=b"\x02\0", lengths=b"\x08\0"),
    ),
    "words of 8 bytes where 1 suffice": (
        DecodeError,
        identity(flags=3, shape=b"\x02" + bytes(7), lengths=b"\x08" + bytes(7)),
    ),
    "the header declares 27 bytes, 26 given": (DecodeError, identity(values=bytes(7))),
    "the header declares 27 bytes, 28 given": (DecodeError, identity(values=bytes(9))),
    # Lengths whose sum is right modulo 2^64.
    "the header declares 18446744073709551615 bytes, 65 given": (
        DecodeError,
        identity(
            flags=3,
            sections=3,
            shape=struct.pack("<Q", 2),
            lengths=struct.pack("<3Q", 12, 2**64 - 8, 12),
            values=bytes(16),
        ),
    ),
    "parameter 0 of stage 0 has a bad type": (DecodeError, identity(stage=b"\x01\0\x01\0\0\0")),
    "parameter 0 of stage 0 has a bad": (DecodeError, identity(stage=b"\x01\0\x01\0\x05\0")),
    "parameter 3 of stage 0 has a bad type, order": (
        DecodeError,
        identity(stage=b"\x01\0\x02" + b"\x04\x01\0" + b"\x03\x01\0"),
    ),
    "parameter 4 of stage 0 has a bad type, order": (
        DecodeError,
        identity(stage=b"\x01\0\x02" + b"\x04\x01\0" * 2),
    ),
    "parameter 32 of stage 0": (
        DecodeError,
        identity(stage=b"\x01\0\x21" + b"".join(bytes([n, 1, 1]) for n in range(33))),
    ),
    "identity is an operator, yet another stage follows it": (
        DecodeError,
        identity(stages=2, stage=b"\x01\0\0" * 2),
    ),
    "top-k is a stage, yet no operator follows it": (DecodeError, identity(stage=b"\x0a\0\0")),
    "operator code 513 is unknown": (VersionError, identity(stage=b"\x01\x02\0")),
    "parameter 7 is unknown": (VersionError, identity(stage=b"\x01\0\x01\x07\x01\x01")),
    "0 sections, identity has 1": (DecodeError, identity(sections=0, lengths=b"", values=b"")),
    "section 'values' has 4 bytes, 2 values need 8": (
        DecodeError,
        identity(lengths=b"\x04", values=bytes(4)),
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_headers_are_refused_with_their_own_words(text: str) -> None:
    error, frame = REFUSED[text]
    with pytest.raises(error) as caught:
        fewbits.decompress(frame)
    assert text in str(caught.value)
    assert type(caught.value) is error


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
def test_float_parameters_are_finite_and_not_minus_zero(value: float) -> None:
    with pytest.raises(DecodeError, match="parameter 2 of stage 0 has a bad type, order or value"):
        parse(identity(stage=b"\x01\0\x01\x02\x03" + struct.pack("<d", value)))
    parse(identity(stage=b"\x01\0\x01\x02\x03" + struct.pack("<d", 0.5)))


def test_the_parameters_of_natural_have_one_spelling() -> None:
    natural = fewbits.compress(array([1, 2, 4], FLOAT32), "natural:rounding=nearest", seed=1)
    assert natural[11:17] == b"\x04\0\x01\0\x01\x01"
    for value, error, text in (
        (0, DecodeError, "parameter rounding spells out its default"),
        (2, VersionError, "choice 2 of rounding is unknown"),
    ):
        with pytest.raises(error, match=text):
            fewbits.decompress(sealed(natural[:16] + bytes([value]) + natural[17:-4]))
    typed = natural[:15] + b"\x02" + struct.pack("<q", 1) + natural[17:-4]
    with pytest.raises(DecodeError, match="parameter rounding has type INTEGER, not CHOICE"):
        fewbits.decompress(sealed(typed))


def test_damage_is_reported_as_damage() -> None:
    frame = bytearray(identity())
    frame[-6] ^= 1
    with pytest.raises(DecodeError, match=r"checksum is \w{8}, the frame says \w{8}"):
        fewbits.decompress(bytes(frame))


@pytest.mark.parametrize("limit", [0, 1, 5, 2**20])
def test_the_limit_is_the_last_number_allowed(limit: int) -> None:
    def frame(count: int) -> bytes:
        return fewbits.compress(np.zeros(count, np.float16), "natural", seed=1)

    # The product of no extents is 1: a limit below that refuses everything but allows nothing.
    if limit:
        assert fewbits.decompress(frame(limit), max_elements=limit).size == limit
    with pytest.raises(
        LimitError, match=f"claims {limit + 1} elements, the limit is {limit}: pass"
    ):
        fewbits.decompress(frame(limit + 1), max_elements=limit)


def test_the_limit_counts_the_extents_of_empty_vectors() -> None:
    frame = fewbits.compress(np.zeros((0, 7, 3), np.float32), "identity")
    assert fewbits.decompress(frame, max_elements=21).shape == (0, 7, 3)
    with pytest.raises(LimitError, match="claims 21 elements, the limit is 20"):
        fewbits.decompress(frame, max_elements=20)


@pytest.mark.parametrize("limit", [-1, 2**64, -(2**64) + 2**20])
def test_limits_that_are_no_limits_are_refused(limit: int) -> None:
    frame = fewbits.compress(np.zeros(3, np.float32), "identity")
    for call in (fewbits.decompress, fewbits.inspect):
        with pytest.raises(fewbits.SpecError, match="max_elements"):
            call(frame, max_elements=limit)


def resident() -> int:
    """Bytes of memory in use by this process."""
    with open("/proc/self/statm") as statm:  # noqa: PTH123
        return int(statm.read().split()[1]) * 4096


def claiming(shape: tuple[int, ...], code: int = 4) -> bytes:
    header = Header(FLOAT32, shape, (StageRecord(code),), (30, 3)).encode()
    return sealed(header + bytes(33))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "shape", [(2**60,), (2**30, 2**30), (2**40, 2**40), (2**63, 2), (2**64 - 1,) * 8]
)
def test_a_small_frame_cannot_claim_memory(shape: tuple[int, ...]) -> None:
    frame = claiming(shape)
    assert len(frame) < 200
    with pytest.raises(LimitError, match="pass max_elements="):
        fewbits.decompress(frame)
    before = resident()
    tracemalloc.start()
    try:
        with pytest.raises(LimitError):
            fewbits.decompress(frame)
        with pytest.raises(DecodeError):
            fewbits.decompress(frame, max_elements=2**62)
        with pytest.raises(DecodeError):
            fewbits.inspect(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200_000
    assert resident() - before < 4 << 20


@pytest.mark.parametrize("shape", [(0, 2**61), (2**31, 0, 2**30)])
def test_shapes_that_numpy_cannot_make_are_refused(shape: tuple[int, ...]) -> None:
    header = Header(FORMATS[1], shape, (StageRecord(1),), (0,)).encode()
    with pytest.raises(DecodeError):
        fewbits.decompress(sealed(header), max_elements=2**62)


def test_parsing_reports_the_offsets_of_sections() -> None:
    header = Header(FLOAT32, (5,), (StageRecord(9),), (2, 0, 3))
    body = header.encode() + b"ab" + b"cde"
    sections = [section.tobytes() for section in parse(sealed(body)).sections]
    assert sections == [b"ab", b"", b"cde"]


def test_the_native_structure_is_what_python_thinks() -> None:
    header = Header(FORMATS[3], (3, 700), (StageRecord(65535),), (1, 2), nonfinite=True)
    data = np.frombuffer(sealed(header.encode() + bytes(3)), np.uint8)
    status, raw, _ = _native.frame_parse(data, LIMIT)
    assert status == _native.OK
    assert (raw.version, raw.dtype, raw.nonfinite) == (1, 4, 1)
    assert (raw.dimensions, raw.stages, raw.sections, raw.parameters) == (2, 1, 2, 0)
    assert raw.elements == 2100
    assert list(raw.shape[:2]) == [3, 700]
    assert raw.crc == int.from_bytes(data[-4:].tobytes(), "little")
