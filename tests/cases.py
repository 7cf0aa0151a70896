"""One row an operator: a row in `CASES` buys the whole conformance suite.

The rest of the file makes the vectors that the suites share. Everything is a pure function of its
arguments, so that no test depends on another or on the order they run in.
"""

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fewbits import Operator, Rng, _native
from fewbits.coding import enumerative, rans
from fewbits.kernels import reference
from fewbits.kernels.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Bits, Format
from fewbits.operators.bfloat16 import Bfloat16
from fewbits.operators.float16 import Float16
from fewbits.operators.identity import Identity
from fewbits.operators.natural import Natural
from fewbits.operators.sparse_dithering import SparseDithering

Values = npt.NDArray[np.float64]
Sections = tuple[bytes, ...]


def same_bits(bits: Bits, format: Format, rng: Rng) -> Sections:
    return (bits.tobytes(),)


def cast_to(target: Format) -> Callable[[Bits, Format, Rng], Sections]:
    def sections(bits: Bits, format: Format, rng: Rng) -> Sections:
        return (reference.cast(bits, format, target)[0].tobytes(),)

    return sections


def natural(bits: Bits, format: Format, rng: Rng | None) -> Sections:
    codes = reference.natural(bits, format, rng)
    planes = (codes.exponents, format.exponent), (codes.signs, 1)
    return tuple(reference.pack(plane, width).tobytes() for plane, width in planes)


def coded(bits: Bits, format: Format, rng: Rng | None) -> Sections:
    codes = reference.natural(bits, format, rng)
    exponents, signs = codes.exponents.astype(np.uint16), codes.signs.astype(np.uint8)
    return (rans.reference_encode(exponents, format.top_code + 1, signs),)


def sparse_dithering(own: SparseDithering) -> Callable[[Bits, Format, Rng], Sections]:
    """What sparse dithering writes, value by value and block by block."""

    def sections(bits: Bits, format: Format, rng: Rng) -> Sections:
        size, stream = own.block or bits.size, rng
        if own.rounding == "subtractive":
            stream = rng.fork("dither")
        draws = (stream.words(0, bits.size).astype(np.float64) + 0.5) / 2**32
        scale = FLOAT64 if format == FLOAT64 else FLOAT32
        scales, codes = [], [np.empty(0, np.int32)]
        for start in range(0, bits.size, size or 1):
            x = reference.to_float64(bits[start : start + size], format)
            step, q = dithered(own, x, draws[start : start + size], format, scale)
            scales.append(step)
            codes.append(q)
        q = np.concatenate(codes)
        sent = np.array(scales, scale.bits)
        if own.coder == "paper":
            pair = enumerative.Stream(sent.astype(np.uint64), q)
            return (
                np.packbits(
                    enumerative.encode(pair, size or 1, scale), bitorder="little"
                ).tobytes(),
            )
        bound = own.layout(bits.size, format)[1].bound
        coded = rans.reference_encode(np.abs(q).astype(np.uint16), bound, (q < 0).astype(np.uint8))
        key = (stream.key[: 16 if bits.size else 0],) if own.rounding == "subtractive" else ()
        return sent.tobytes(), coded, *key

    return sections


def dithered(
    own: SparseDithering, x: Values, draws: Values, format: Format, scale: Format
) -> tuple[int, npt.NDArray[np.int32]]:
    """The bits of the scale and the codes of one block, with sums in the order that is fixed."""
    codes = np.zeros(x.size, np.int32)
    if not np.isfinite(x).all():
        return scale.quiet_nan, codes
    if not x.any():
        return 0, codes
    exponent = int(np.frexp(np.abs(x).max())[1]) if format == FLOAT64 else 0
    small = np.ldexp(x, -exponent)
    length = 2 * np.sqrt(own.nu / x.size) * np.sqrt(fixed_sum(small * small))
    step = nearby(np.ldexp(length * own._shrink(format), exponent), scale, up=False)
    t = x / step
    if own.rounding == "nearest":
        q = np.rint(t)
    elif own.rounding == "stochastic":
        q = np.sign(t) * np.floor(np.abs(t) + draws)
    else:
        q = np.rint(t + (draws - 0.5))
    codes[:] = q
    if own.scale == "least-squares" and q.any():
        best = np.ldexp(fixed_sum(small * q) / fixed_sum(q * q), exponent)
        step = nearby(best, scale, up=bool(best < step))
    if own.rounding != "subtractive" and not q.any():
        if own.rounding == "stochastic":
            return 0, codes
        at = int(np.abs(x).argmax())
        codes[at], step = np.sign(x[at]), nearby(abs(x[at]), scale, up=False)
    return int(np.array(step, scale.name).view(scale.bits)), codes


def fixed_sum(terms: Values) -> float:
    """32 sums for each 65,536 terms, added in halves."""
    total = 0.0
    for start in range(0, terms.size, 65_536):
        lanes = [0.0] * 32
        for i, term in enumerate(terms[start : start + 65_536].tolist()):
            lanes[i % 32] += term
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [a + b for a, b in zip(lanes[:half], lanes[half:], strict=True)]
        total += lanes[0]
    return total


def nearby(number: float, scale: Format, *, up: bool) -> float:
    """A positive number as a scale: downwards or up; up where the result is subnormal."""
    largest = float(np.finfo(scale.name).max)
    if scale == FLOAT64:
        small = number < scale.smallest_normal
        return min(float(np.nextafter(number, np.inf)) if small else float(number), largest)
    near = np.float32(min(number, largest))
    below = near if near <= number else np.nextafter(near, np.float32(0))
    above = near if near >= number else np.nextafter(near, np.float32(np.inf))
    return min(float(above if up or below < scale.smallest_normal else below), largest)


@dataclass(frozen=True)
class Case:
    """An operator and what the suite cannot ask it.

    `sections` is what a frame must hold, from the NumPy reference alone. `tight` gives the value
    that, repeated, makes the relative squared error equal to the guarantee's constant up to a
    relative `within`; None where the operator loses nothing on the format. `stochastic` operators
    give other bytes for other seeds. `keeps_signs`: zeros stay zeros and no value changes its sign.
    `spreads`: a value that is not finite takes all values of its block with it.
    """

    operator: Operator
    sections: Callable[[Bits, Format, Rng], Sections]
    tight: Callable[[Format], float | None] = lambda format: None
    within: float = 0.01
    stochastic: bool = False
    keeps_signs: bool = True
    spreads: bool = False

    @property
    def id(self) -> str:
        return self.operator.spec.replace(":", "-").replace("=", "-")


def sparse(within: float = 0.15, **fields: object) -> Case:
    """Sparse dithering; a flat vector is tight at nu = 1/9, up to what 16 bits take of the step.

    0.11 is as good, and on a vector with one value that is not 0 its rounding is still random.
    """
    own = SparseDithering(**fields)
    return Case(
        own,
        sparse_dithering(own),
        lambda format: 1.25,
        within=within,
        stochastic=own.rounding != "nearest",
        keeps_signs=own.rounding != "subtractive",
        spreads=True,
    )


CASES = (
    Case(Identity(), same_bits),
    # A tie just above 1 goes down to 1: the error is half a unit, relative to 1 plus that half.
    Case(
        Float16(), cast_to(FLOAT16), lambda format: 1 + 2.0**-11 if format.mantissa > 10 else None
    ),
    Case(
        Bfloat16(), cast_to(BFLOAT16), lambda format: 1 + 2.0**-8 if format.mantissa > 7 else None
    ),
    Case(Natural(), natural, lambda format: 4 / 3, within=0.03, stochastic=True),
    Case(Natural("nearest"), lambda bits, format, rng: natural(bits, format, None), lambda _: 1.5),
    Case(Natural(coder="rans"), coded, lambda format: 4 / 3, within=0.03, stochastic=True),
    sparse(nu=1 / 9),
    sparse(nu=1 / 9, coder="paper", block=512),
    sparse(nu=0.11, rounding="stochastic"),
    sparse(nu=0.11, rounding="stochastic", coder="paper", block=100),
    sparse(nu=1 / 4, rounding="subtractive", within=0.05),
    sparse(nu=1 / 9, block=1000),
)
ROWS = [(case, format) for case in CASES for format in FORMATS]
ROW_IDS = [f"{case.id}-{format.name}" for case, format in ROWS]

DTYPES = {
    format: np.dtype(ml_dtypes.bfloat16 if format == BFLOAT16 else format.name)
    for format in FORMATS
}


def array(values: npt.ArrayLike, format: Format) -> npt.NDArray:
    """Numbers rounded to a format, as an array of its dtype."""
    exact = np.asarray(values, np.float64)
    bits, saturated, _ = reference.cast(exact.reshape(-1).view(np.uint64), FLOAT64, format)
    assert not saturated
    return bits.view(DTYPES[format]).reshape(exact.shape)


def exact(x: npt.NDArray) -> Values:
    """The numbers in an array of any of the four formats, without rounding."""
    return np.asarray(x).astype(np.float64)


def bits(x: npt.NDArray) -> Bits:
    """The bit patterns of an array, flat, in C order."""
    return np.ascontiguousarray(x).reshape(-1).view(f"<u{x.dtype.itemsize}")


def shapes_of_vector(d: int) -> dict[str, Values]:
    """Four shapes on which bounds behave differently, magnitudes within every format's range."""
    source = np.random.default_rng(2024)
    one_hot = np.zeros(d)
    one_hot[d // 3] = -1.4
    return {
        "random": source.standard_normal(d),
        "flat": np.full(d, 1.3) * np.where(np.arange(d) % 3, 1.0, -1.0),
        "one-hot": one_hot,
        "steep": 1.7 * 2.0 ** (-12 * np.arange(d) / d),
    }


def corners(format: Format) -> dict[str, npt.NDArray]:
    """Finite vectors at the ends of a format's range and of the shapes that arrays may have."""
    dtype = DTYPES[format]

    def pattern(*patterns: int) -> npt.NDArray:
        return np.array(patterns, format.bits).view(dtype)

    one = format.bias << format.mantissa
    smallest, largest = 1, format.infinity - 1
    powers = [code << format.mantissa for code in range(1, format.top_code)]
    subnormal = [1 << shift for shift in range(format.mantissa)]
    plain = array(np.linspace(-3, 3, 24), format)
    padded = np.concatenate([plain.view(np.uint8)[:1], plain.view(np.uint8)])
    return {
        "empty": pattern(),
        "zeros": np.zeros(37, dtype),
        "scalar": array(-1.4, format),
        "one coordinate": array([0.3], format),
        "minus zero": pattern(format.sign, 0, format.sign),
        "subnormal": pattern(*subnormal, (1 << format.mantissa) - 1, smallest | format.sign),
        "powers of two": pattern(*powers, *(power | format.sign for power in powers)),
        "largest power": pattern(format.largest_power, format.largest_power | format.sign),
        "neighbours of one": pattern(one - 1, one, one + 1),
        "largest": pattern(largest, largest | format.sign, one),
        "zero extent": np.zeros((3, 0, 2), dtype),
        "three dimensions": plain.reshape(2, 3, 4),
        "fortran order": np.asfortranarray(plain.reshape(4, 6)),
        "transposed": plain.reshape(2, 3, 4).transpose(2, 0, 1),
        "strided": plain[::3],
        "reversed": plain[::-1],
        "broadcast": np.broadcast_to(plain[:5], (3, 5)),
        "odd alignment": padded[1:].view(dtype),
        "63": array(np.linspace(-2, 5, 63), format),
        "65": array(np.linspace(-2, 5, 65), format),
    }


CORNERS = tuple(corners(FLOAT16))


def mixed_bits(format: Format, count: int, seed: int, rare: float = 0.02) -> Bits:
    """Gaussian values with zeros, subnormals and, with probability `rare`, values that saturate or
    are not finite, at random places: vector code meets whole groups with and without them.
    """
    source = np.random.default_rng([seed, count])
    scale = 2.0 ** source.integers(-8, 8, count)
    result = bits(array(source.standard_normal(count) * scale, format)).copy()
    signs = source.integers(0, 2, count).astype(format.bits) * format.bits.type(format.sign)
    common = np.array([0, 1, (1 << format.mantissa) - 1, 1 << format.mantissa], format.bits)
    near_top = [format.largest_power, format.largest_power - 1, format.infinity - 1]
    beyond = [format.largest_power + 1, format.infinity, format.infinity + 1, format.sign - 1]
    rare_values = np.array([*near_top, *beyond, format.quiet_nan], format.bits)
    at = source.random(count) < 0.1
    result[at] = source.choice(common, count)[at] | signs[at]
    at = source.random(count) < rare
    result[at] = source.choice(rare_values, count)[at] | signs[at]
    return result


def sealed(body: bytes) -> bytes:
    """A frame with a right checksum around anything."""
    return body + _native.crc32c(np.frombuffer(body, np.uint8)).to_bytes(4, "little")
