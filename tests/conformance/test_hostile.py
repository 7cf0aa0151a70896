"""Any bytes at all either decode or raise `DecodeError`, for every operator."""

import numpy as np
import pytest

import fewbits
from cases import (
    ROW_IDS,
    ROWS,
    Case,
    array,
    bits,
    mixed_bits,
    naming,
    sealed,
    seen_by_a_check,
)
from fewbits import DecodeError
from fewbits.reference.formats import FLOAT32, Format
from fewbits.wire import frame as wire
from fewbits.wire.frame import Header
from native_tables import each_table

rows = pytest.mark.parametrize(("case", "format"), ROWS, ids=ROW_IDS)


def small_frame(case: Case, format: Format, n: int = 19) -> bytes:
    x = array(np.random.default_rng(n).standard_normal(n), format)
    return fewbits.compress(x, case.operator, seed=1)


def framed(header: Header, sections: bytes) -> bytes:
    return sealed(header.encode() + sections)


def decoded(frame: bytes) -> np.ndarray | None:
    """None after `DecodeError` by a check; any other error, and any warning, fails the test."""
    try:
        y = fewbits.decompress(frame, max_elements=10_000)
    except DecodeError as error:
        seen_by_a_check(error)
        return None
    assert isinstance(y, np.ndarray)
    return y


def decodes(frame: bytes) -> bool:
    return decoded(frame) is not None


@rows
def test_truncated_and_extended_frames_are_refused(case: Case, format: Format) -> None:
    frame = small_frame(case, format)
    assert decodes(frame)
    for size in range(len(frame)):
        assert not decodes(frame[:size])
    for tail in (b"\0", frame[-4:], frame):
        assert not decodes(frame + tail)


@rows
def test_every_flipped_bit_is_noticed(case: Case, format: Format) -> None:
    frame = small_frame(case, format)
    for at in range(8 * len(frame)):
        damaged = bytearray(frame)
        damaged[at // 8] ^= 1 << at % 8
        assert not decodes(bytes(damaged)), at


@rows
def test_nonsense_behind_a_right_checksum_decodes_or_is_refused(case: Case, format: Format) -> None:
    for n in (1, 19, 64, 333) if case.plain or format == FLOAT32 else (19, 333):
        with naming(n):
            check_nonsense(case, format, n)


def check_nonsense(case: Case, format: Format, n: int) -> None:
    parsed = wire.parse(np.frombuffer(small_frame(case, format, n), np.uint8), n)
    header, source = parsed.header, np.random.default_rng(n)
    size = sum(header.lengths)
    frames = []
    for trial in range(60):
        # Uniform bytes, and sparse ones: mostly zero bytes are nearer to what a decoder accepts.
        noise = source.integers(0, 256, size, dtype=np.uint8)
        if trial % 2:
            noise[source.random(size) < 0.97] = 0
        for nonfinite in (False, True):
            edited = Header(
                header.format, header.shape, header.stages, header.lengths, nonfinite=nonfinite
            )
            frames.append((nonfinite, framed(edited, noise.tobytes())))
    for simd in each_table():
        verdicts = {check_verdict(frame, format, n, nonfinite) for nonfinite, frame in frames}
        assert False in verdicts, f"{simd}: the flag for non-finite values was never contradicted"


def check_verdict(frame: bytes, format: Format, n: int, nonfinite: bool) -> bool:
    """Whether a frame decodes, and then to what it declares."""
    y = decoded(frame)
    if y is None:
        return False
    assert y.shape == (n,)
    magnitudes = bits(y) & format.bits.type(format.sign - 1)
    assert bool((magnitudes >= format.infinity).any()) == nonfinite
    return True


@rows
def test_headers_that_contradict_their_sections_are_refused(case: Case, format: Format) -> None:
    parsed = wire.parse(np.frombuffer(small_frame(case, format), np.uint8), 100)
    header = parsed.header
    body = b"".join(section.tobytes() for section in parsed.sections)
    assert decodes(framed(header, body))
    for shape in ((3,), (190,), (19, 9), ()):
        assert not decodes(framed(Header(format, shape, header.stages, header.lengths), body))
    shorter = (*header.lengths[:-1], header.lengths[-1] - 1)
    assert not decodes(framed(Header(format, (19,), header.stages, shorter), body[:-1]))
    more = (*header.lengths, 1)
    assert not decodes(framed(Header(format, (19,), header.stages, more), body + b"\0"))
    assert not decodes(framed(Header(format, (19,), header.stages, ()), b""))


@rows
def test_random_bytes_are_refused(case: Case, format: Format) -> None:
    source = np.random.default_rng(5)
    frame = small_frame(case, format)
    for size in (0, 1, 13, 14, 15, 60, 500):
        assert not decodes(source.bytes(size))
        assert not decodes(b"fewb\x01" + source.bytes(size))
        assert not decodes(frame[:12] + source.bytes(size))


@rows
def test_what_is_not_finite_cannot_hide(case: Case, format: Format) -> None:
    values = mixed_bits(format, 50, seed=1, rare=0.3)
    with pytest.raises(fewbits.EncodeError):
        fewbits.compress(values.view(array([], format).dtype), case.operator, seed=1)
    frame = bytearray(small_frame(case, format))
    frame[5] |= 4  # the flag, without a value that is not finite
    with pytest.raises(DecodeError, match="0 values are not finite"):
        fewbits.decompress(sealed(bytes(frame[:-4])))
