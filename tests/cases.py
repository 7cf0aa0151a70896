"""One row an operator: a row in `CASES` buys the whole conformance suite.

The rest of the file makes the vectors that the suites share. Everything is a pure function of its
arguments, so that no test depends on another or on the order they run in.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fewbits import Operator, Rng
from fewbits.backend import library as _native
from fewbits.core.component import Component
from fewbits.core.composition import Composed
from fewbits.errors import DecodeError, FewbitsError
from fewbits.families.dithering import Dithering
from fewbits.operators.bfloat16 import Bfloat16
from fewbits.operators.float16 import Float16
from fewbits.operators.hadamard import Hadamard
from fewbits.operators.identity import Identity
from fewbits.operators.natural import Natural
from fewbits.operators.natural_dithering import NaturalDithering
from fewbits.operators.rand_k import RandK
from fewbits.operators.scale import ScaleDown
from fewbits.operators.sign import Sign
from fewbits.operators.sparse_dithering import SparseDithering
from fewbits.operators.spherical import Spherical
from fewbits.operators.standard_dithering import StandardDithering
from fewbits.operators.top_k import TopK
from fewbits.operators.trellis import TrellisPaths
from fewbits.reference import casts
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Bits, Format
from references import (
    Sections,
    Values,
    after,
    cast_to,
    coded,
    dithered,
    divided,
    hadamard,
    natural,
    rand_k,
    rotated_flat,
    same_bits,
    signed,
    sparse_dithering,
    spherical,
    top_k,
    trellis,
)


@dataclass(frozen=True)
class Case:
    """An operator and what the suite cannot ask it.

    `sections` is what a frame must hold, from the NumPy reference alone. `tight` gives the value,
    or values, that repeated make the relative squared error equal to the guarantee's constant up to
    a relative `within`, or an array, the whole vector; None where the operator loses nothing on the
    format. `stochastic` operators give other bytes for other seeds. `keeps_signs`: zeros stay zeros
    and no value changes its sign. `carries` says where a vector that is not finite decodes to what
    is not: at the same "places", in the whole "block" around them, or "somewhere". A row that
    differs from another in its parameters alone need not be tried in all `formats`.
    """

    operator: Operator
    sections: Callable[[Bits, Format, Rng], Sections]
    tight: Callable[[Format], float | list[float] | Values | None] = lambda format: None
    within: float = 0.01
    stochastic: bool = False
    keeps_signs: bool = True
    carries: Literal["places", "block", "somewhere"] = "places"
    formats: tuple[Format, ...] = FORMATS

    @property
    def id(self) -> str:
        return re.sub("[^a-z0-9.]", "-", self.operator.spec)

    @property
    def plain(self) -> bool:
        """Whether values are coded one by one, without a scale or a stage."""
        return self.parts[0].name in ("identity", "float16", "bfloat16", "natural")

    @property
    def parts(self) -> tuple[Component, ...]:
        """The stages and the operator."""
        own = self.operator
        return (*own.before, own.last) if isinstance(own, Composed) else (own,)


def dithering_case(
    operator: Dithering,
    tight: float | list[float] = 1.0,
    within: float = 0.03,
    formats: tuple[Format, ...] = FORMATS,
) -> Case:
    values = dithered(operator)
    return Case(operator, values, lambda _: tight, within, stochastic=True, formats=formats)


# Many values at 4/9 of the lowest level, and most of the energy at 4/3 of a power of two.
NATURAL_MIX = [2 / 3, 2 / 3, 1 / 4, *[1 / 36] * 61]


def sparse(
    within: float = 0.15,
    formats: tuple[Format, ...] = FORMATS,
    tight: float | list[float] = 1.25,
    **fields: object,
) -> Case:
    """Sparse dithering; a flat vector is tight at nu = 1/9, up to what 16 bits take of the step.

    0.11 is as good, and on a vector with one value that is not 0 its rounding is still random.
    """
    own = SparseDithering(**fields)
    return Case(
        own,
        sparse_dithering(own),
        lambda format: tight,
        within=within,
        stochastic=own.rounding != "nearest",
        keeps_signs=own.rounding != "subtractive",
        carries="block",
        formats=formats,
    )


def spherical_case(within: float, **fields: object) -> Case:
    own = Spherical(**fields)
    section = spherical(own)
    loose = {"keeps_signs": False, "carries": "block"}
    return Case(own, section, lambda _: 1.25, within=within, stochastic=True, **loose)


def trellis_case(formats: tuple[Format, ...] = FORMATS, **fields: object) -> Case:
    """The promise is nearly attained by two values whose odd levels are not offered, for nu = 0.2.

    A dither's error does not depend on the vector: long paths have three quarters of the promise.
    Long paths without a dither have a third of it at values half-way between levels; a test of the
    operator has vectors that attain it.
    """
    own = TrellisPaths(**fields)
    dithered, pair = own.rounding == "subtractive", own.nu == 0.2
    loose = {"stochastic": dithered, "keeps_signs": False, "carries": "block"}
    tight = (lambda _: np.array([3.0, 1.0])) if pair else (lambda _: 1.25)
    within = 0.3 if dithered else 0.25 if pair else 0.85
    if own.bits:  # of a vector that needs the most bits
        gauss = np.random.default_rng(1).standard_normal(5000)
        tight, within = (lambda _: gauss), 0.5 if dithered else 0.9
    return Case(own, trellis(own), tight, within=within, formats=formats, **loose)


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
    Case(
        Composed((TopK(0.75),), Identity()),
        after(top_k(0.75), same_bits),
        lambda format: 1.0,
        carries="somewhere",
        formats=(FLOAT32,),
    ),
    Case(
        Composed((TopK(0.75),), Natural()),
        after(top_k(0.75), natural),
        lambda format: 4 / 3,
        within=0.03,
        stochastic=True,
        carries="somewhere",
    ),
    # 4/3 once it is multiplied by d/k = 5/4.
    Case(
        Composed((RandK(0.8),), Natural()),
        after(rand_k(0.8), natural),
        lambda format: 16 / 15,
        within=0.03,
        stochastic=True,
        carries="somewhere",
    ),
    Case(
        Composed((Hadamard(),), Natural()),
        after(hadamard(4096), natural),
        rotated_flat(4 / 3, 4096),
        within=0.1,  # bfloat16: the bound counts the worst roundings, 8 %
        stochastic=True,
        keeps_signs=False,
        carries="somewhere",
    ),
    Case(
        Composed((Hadamard(16, "private"),), Natural()),
        after(hadamard(16, private=True), natural),
        # One value in 16 and zeros around it: whatever the signs, all rotated values are 4/3.
        lambda format: np.where(np.arange(1 << 16) % 16, 0.0, 16 / 3),
        within=0.1,
        stochastic=True,
        keeps_signs=False,
        carries="somewhere",
        formats=(FLOAT32,),
    ),
    # 4/3 once it is divided by 9/8.
    Case(
        Composed((ScaleDown(),), Natural()),
        after(divided(1.125), natural),
        lambda format: 3 / 2,
        within=0.02,
        stochastic=True,
    ),
    Case(
        Composed((ScaleDown(3.0),), Identity()),
        after(divided(4.0), same_bits),
        lambda format: 1.0,
        within=0.01,
        formats=(FLOAT32,),
    ),
    dithering_case(NaturalDithering(p=2)),  # flat vectors attain z - 1
    dithering_case(
        NaturalDithering(2, 5, 64, coder="rans"), NATURAL_MIX, within=0.08, formats=(FLOAT32,)
    ),
    dithering_case(StandardDithering(2, 127)),  # flat vectors attain w - 1
    # Half-way between two levels: 12 / sqrt(64) = 3/2.
    dithering_case(
        StandardDithering(2, 12, 64, coder="rans"), within=0.01, formats=(FLOAT32, BFLOAT16)
    ),
    # One value is far larger than the others.
    Case(Sign(), signed, lambda format: [1.0, *[2.0**-14] * 63], within=0.004),
    sparse(nu=1 / 9),
    sparse(nu=1 / 9, coder="paper", block=512, formats=(FLOAT32,)),
    sparse(nu=0.11, rounding="stochastic"),
    sparse(
        nu=0.11, rounding="stochastic", coder="paper", block=100, formats=(FLOAT64,)
    ),  # scales of 63 bits
    sparse(nu=1 / 4, rounding="subtractive", within=0.05),
    sparse(nu=1 / 9, block=1000, formats=(FLOAT32,)),
    # Just below and above 3/2, two and one: the error is at right angles to the codes.
    sparse(nu=1 / 9, scale="matched", formats=(FLOAT32,), tight=[1.248, 1.248, 1.254]),
    trellis_case(nu=0.2),
    trellis_case(nu=0.5, rounding="subtractive"),
    trellis_case(nu=0.05, scale="least-squares", states=16, formats=(FLOAT32,)),
    trellis_case(scale="least-squares", bits=2.0, formats=(FLOAT32,)),
    trellis_case(rounding="subtractive", bits=2.0, formats=(FLOAT32,)),
    # The sure bound is reached at the rim of a cap; on average 0.447 is.
    spherical_case(within=0.14),
    spherical_case(within=0.03, scale="unbiased"),
)


def others(*specs: str) -> list[str]:
    """A row's spec for each operator and stage that these specs do not name."""
    named = {re.split(":", part)[0] for spec in specs for part in spec.split("|")}
    found: dict[str, str] = {}
    for case in CASES:
        for part in case.parts:
            if part.name not in named:
                found.setdefault(part.name, case.operator.spec)
    return list(dict.fromkeys(found.values()))


ROWS = [(case, format) for case in CASES for format in case.formats]
ROW_IDS = [f"{case.id}-{format.name}" for case, format in ROWS]

DTYPES = {
    format: np.dtype(ml_dtypes.bfloat16 if format == BFLOAT16 else format.name)
    for format in FORMATS
}


def array(values: npt.ArrayLike, format: Format) -> npt.NDArray:
    """Numbers rounded to a format, as an array of its dtype."""
    exact = np.asarray(values, np.float64)
    bits, saturated, _ = casts.cast(exact.reshape(-1).view(np.uint64), FLOAT64, format)
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


@contextmanager
def naming(what: object) -> Iterator[None]:
    """Say of a failure with which of several inputs of a test it came.

    A test for each of them would cost more than what it tests.
    """
    try:
        yield
    except BaseException as error:
        error.add_note(f"with {what}")
        raise


def seen_by_a_check(error: DecodeError) -> None:
    """Fail if no check refused the frame, but the last net below all checks."""
    cause = error.__cause__
    assert cause is None or isinstance(cause, FewbitsError), f"no check has seen {cause!r}"


def sealed(body: bytes) -> bytes:
    """A frame with a right checksum around anything."""
    return body + _native.crc32c(np.frombuffer(body, np.uint8)).to_bytes(4, "little")
