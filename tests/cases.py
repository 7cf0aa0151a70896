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
from fewbits.coding import rans, rice
from fewbits.core.vector import Vector
from fewbits.kernels import reference
from fewbits.kernels.formats import BFLOAT16, FLOAT16, FLOAT64, FORMATS, Bits, Format
from fewbits.operators.bfloat16 import Bfloat16
from fewbits.operators.float16 import Float16
from fewbits.operators.identity import Identity
from fewbits.operators.natural import Natural
from fewbits.operators.spherical import Spherical

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


def spherical(own: Spherical) -> Callable[[Bits, Format, Rng], Sections]:
    def sections(bits: Bits, format: Format, rng: Rng) -> Sections:
        stream = rng.fork("sphere")
        sent = own.searched(Vector(bits, format), rng, stream, native=False)
        radii, indices, escapes, key = own.layout(bits.size, format)
        return (
            rans.reference_encode(sent.radii.astype(np.uint16), radii.bound),
            rice.encode(sent.indices, indices.parameter).tobytes(),
            rans.reference_encode(sent.escapes.astype(np.uint16), escapes.bound),
            stream.key[: key.count],
        )

    return sections


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


def spherical_case(within: float, **fields: object) -> Case:
    own = Spherical(**fields)
    section = spherical(own)
    loose = {"keeps_signs": False, "spreads": True}
    return Case(own, section, lambda _: 1.25, within=within, stochastic=True, **loose)


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
    # The sure bound is reached at the rim of a cap; on average 0.447 is.
    spherical_case(within=0.14),
    spherical_case(within=0.03, scale="unbiased"),
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
