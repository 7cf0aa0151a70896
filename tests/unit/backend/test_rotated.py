"""Rows that rotate and encode some blocks before the next ones have the bits of stage by stage."""

from typing import Any

import numpy as np
import pytest

import fewbits
import native_tables as native
from cases import mixed_bits
from fewbits import DecodeError, Rng
from fewbits.backend import cpu, parallel
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Row
from fewbits.backend.kinds import rotated
from fewbits.core.operator import Operator
from fewbits.core.vector import Vector
from fewbits.reference.formats import FLOAT32, FORMATS, Bits, Format

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
LENGTHS = (0, 1, 7, 33, 4099, 12_300, 65_536, 70_001)
SPECS = (
    "hadamard|natural",
    "hadamard:block=65536,signs=private|natural:coder=rans",
    "hadamard:block=16|natural:coder=rans,rounding=nearest",
    "hadamard:block=2,signs=private|identity",
)


def sections(operator: Operator, count: int, format: Format, fill: int) -> list[Bits]:
    return [np.full(own.size, fill, np.uint8) for own in operator.layout(count, format)]


def row(operator: Operator, values: Any, format: Format, count: int, parts: Any, rng: Rng) -> Row:
    kernel = operator.kernel(count, format)
    assert rotated.is_fused(kernel, format)
    return Row(kernel, format, Buffer.of(values), tuple(map(Buffer.of, parts)), rng.key)


@formats
@pytest.mark.parametrize("spec", SPECS)
def test_rows_behind_a_rotation_are_those_of_its_stages(
    spec: str, format: Format, simd: str
) -> None:
    operator = fewbits.operator(spec)
    for n in LENGTHS:
        for rare in (0.0, 0.001):
            bits, rng = mixed_bits(format, n, seed=n, rare=rare), Rng.from_seed(n)
            apart, fused = (sections(operator, n, format, fill) for fill in (0, 255))
            wanted = native.composed_encode(operator, Vector(bits, format), rng, apart)
            written = cpu.run_row("encode", row(operator, bits, format, n, fused, rng))
            assert written == wanted
            parts = [own[:size] for own, size in zip(fused, written.sizes, strict=True)]
            for own, other in zip(parts, apart, strict=True):
                assert np.array_equal(own, other[: own.size])
            out, again = np.zeros_like(bits), np.ones_like(bits)
            met = native.composed_decode(operator, parts, Vector(out, format))
            assert cpu.run_row("decode", row(operator, again, format, n, parts, rng)).tally == met
            assert np.array_equal(out, again)
            totals = np.full(n, 0.25, np.float64 if format.itemsize == 8 else np.float32)
            sums = totals.copy()
            native.composed_accumulate(operator, parts, format, sums)
            cpu.run_row("accumulate", row(operator, totals, format, n, parts, rng))
            assert np.array_equal(totals, sums, equal_nan=True)
            assert n == 0 or not np.array_equal(totals, np.full(n, 0.25))


@pytest.mark.parametrize("spec", SPECS)
def test_threads_rotate_their_own_blocks(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    d = 3 * parallel.THREAD_SLICE + 4321
    x = np.random.default_rng(1).standard_normal(d).astype(np.float32)
    one = fewbits.compress(x, spec, seed=1, threads=1)
    back = fewbits.decompress(one, threads=1)
    monkeypatch.setattr(parallel, "WORTHWHILE", 1)
    assert fewbits.compress(x, spec, seed=1, threads=3) == one
    assert np.array_equal(fewbits.decompress(one, threads=3), back)
    mixed = "hadamard|hadamard:signs=private|sign"
    assert fewbits.compress(x, mixed, seed=1, threads=3) == fewbits.compress(
        x, mixed, seed=1, threads=1
    )


def test_sections_behind_a_rotation_are_judged_as_without_one() -> None:
    d = 70_001
    x = np.random.default_rng(1).standard_normal(d).astype(np.float32)
    operator = fewbits.operator("hadamard|natural:coder=rans")
    parts = sections(operator, d, FLOAT32, 0)
    rng, bits = Rng.from_seed(1), x.view(np.uint32)
    size = cpu.run_row("encode", row(operator, bits, FLOAT32, d, parts, rng)).sizes[0]
    good, out = parts[0][:size].copy(), np.zeros_like(bits)
    for bad, why in (
        (good[:-1], "lengths"),
        (np.append(good, np.uint8(0)), "lengths"),
        (good[:2], "lengths"),
        (np.concatenate([good[:3], [np.uint8(99)], good[4:]]), "unknown kind"),
    ):
        with pytest.raises(DecodeError):
            cpu.run_row("decode", row(operator, out, FLOAT32, d, [bad], rng))
        plain = fewbits.operator("natural:coder=rans").kernel(d, FLOAT32)
        messages = []
        for own in (row(operator, out, FLOAT32, d, [bad], rng).kernel, plain):
            with pytest.raises(DecodeError) as caught:
                cpu.run_row("decode", Row(own, FLOAT32, Buffer.of(out), (Buffer.of(bad),)))
            messages.append(str(caught.value))
        assert messages[0] == messages[1], why
