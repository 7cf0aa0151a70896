"""What frames of each operator must hold, from NumPy alone: the specification of the suites."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fewbits import Rng
from fewbits.coding import bitpack, enumerative, places, rans, rice
from fewbits.coding.paths import Paths
from fewbits.coding.phases import Phases
from fewbits.families.dithering import Dithering
from fewbits.operators.natural_dithering import NaturalDithering
from fewbits.operators.sparse_dithering import SparseDithering
from fewbits.operators.spherical import Spherical
from fewbits.operators.standard_dithering import StandardDithering
from fewbits.operators.trellis import TrellisPaths
from fewbits.reference import casts, dithering, rotation
from fewbits.reference import natural as natural_reference
from fewbits.reference import trellis as paths_reference
from fewbits.reference.blocks import Blocks
from fewbits.reference.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.reference.rotation import COMMON
from fewbits.reference.spherical import runs, searched, together

Values = npt.NDArray[np.float64]
Sections = tuple[bytes, ...]


def same_bits(bits: Bits, format: Format, rng: Rng) -> Sections:
    return (bits.tobytes(),)


def cast_to(target: Format) -> Callable[[Bits, Format, Rng], Sections]:
    def sections(bits: Bits, format: Format, rng: Rng) -> Sections:
        return (casts.cast(bits, format, target)[0].tobytes(),)

    return sections


def natural(bits: Bits, format: Format, rng: Rng | None) -> Sections:
    codes = natural_reference.rounded(bits, format, rng)
    planes = (codes.exponents, format.exponent), (codes.signs, 1)
    return tuple(bitpack.pack(plane, width).tobytes() for plane, width in planes)


def coded(bits: Bits, format: Format, rng: Rng | None) -> Sections:
    codes = natural_reference.rounded(bits, format, rng)
    exponents, signs = codes.exponents.astype(np.uint16), codes.signs.astype(np.uint8)
    return (rans.encode(exponents, format.top_code + 1, signs),)


Reference = Callable[[Bits, Format, Rng], Sections]
Staged = Callable[[Bits, Format, Rng], tuple[Sections, Bits]]


def after(stage: Staged, operator: Reference) -> Reference:
    """The sections of one stage, then those of the operator on what the stage hands on."""

    def sections(bits: Bits, format: Format, rng: Rng) -> Sections:
        side, rest = stage(bits, format, rng.fork(0))
        return *side, *operator(rest, format, rng.fork(1))

    return sections


def top_k(fraction: float) -> Staged:
    def split(bits: Bits, format: Format, rng: Rng) -> tuple[Sections, Bits]:
        k = min(bits.size, max(1, int(fraction * bits.size + 0.5)))
        order = np.argsort(-(bits & bits.dtype.type(format.sign - 1)).astype(float), kind="stable")
        if format == FLOAT64:  # bits that float64 numbers cannot tell apart
            magnitudes = bits & np.uint64(format.sign - 1)
            order = np.array(sorted(range(bits.size), key=lambda i: (-int(magnitudes[i]), i)), int)
        kept = np.sort(order[:k])
        return (places.encode(kept.astype(np.uint32), bits.size),), bits[kept]

    return split


def rand_k(fraction: float) -> Staged:
    def split(bits: Bits, format: Format, rng: Rng) -> tuple[Sections, Bits]:
        d = bits.size
        k = min(d, max(1, int(fraction * d + 0.5)))
        kept = np.sort(np.argsort(~rng.words(0, d), kind="stable")[:k])
        values = casts.to_float64(bits, format)
        with np.errstate(all="ignore"):
            scaled = values[kept] * (d / k) if d else values
            scaled[np.isinf(scaled)] = np.copysign(np.finfo(float).max, scaled)[np.isinf(scaled)]
        result = casts.cast(scaled.view(np.uint64), FLOAT64, format)[0]
        if not np.isfinite(values).all():
            result[:] = format.quiet_nan
        return (rng.key,), result

    return split


def hadamard(block: int, private: bool = False) -> Staged:
    def split(bits: Bits, format: Format, rng: Rng) -> tuple[Sections, Bits]:
        key = (rng.key,) if private else ()
        return key, rotation.rotate(bits, format, block, rng if private else COMMON)[0]

    return split


def divided(by: float) -> Staged:
    def split(bits: Bits, format: Format, rng: Rng) -> tuple[Sections, Bits]:
        values = casts.to_float64(bits, format)
        with np.errstate(all="ignore"):
            result = casts.cast((values / by).view(np.uint64), FLOAT64, format)[0]
        odd = ~np.isfinite(values)
        result[odd] = bits[odd]
        return (), result

    return split


def rotated_flat(value: float, block: int) -> Callable[[Format], Values]:
    """The vector that the rotation takes to one value everywhere."""
    flat = np.full(1 << 16, value)
    turned = rotation.rotate(flat.view(np.uint64), FLOAT64, block, COMMON, inverse=True)[0]
    return lambda format: turned.view(np.float64)


def dithered(operator: Dithering) -> Callable[[Bits, Format, Rng], Sections]:
    s, size, entropy = operator.levels, operator.block, operator.coder == "rans"

    def sections(bits: Bits, format: Format, rng: Rng) -> Sections:
        scales = dithering.scales(bits, format, operator.p, size)
        magnitude, odd = dithering.magnitudes(bits, format)
        spread = scales[np.arange(bits.size) // (size or max(bits.size, 1))]
        if isinstance(operator, StandardDithering) and format.itemsize == 2:
            lower, chance = dithering.uniform_levels_of_values(magnitude, spread, s, format)
        else:
            natural = isinstance(operator, NaturalDithering)
            rounded = dithering.natural_levels if natural else dithering.uniform_levels
            lower, chance = rounded(dithering.quotients(magnitude, spread, format), s)
        levels = lower + (dithering.draws(rng, 0, bits.size, format) < chance)
        negative = bits >= format.sign
        if entropy:
            codes = np.where(odd, s + 1, levels).astype(np.uint16)
            body = rans.encode(codes, s + 2, (negative & ~odd).astype(np.uint8))
        else:
            codes = np.where(odd, 2 * s + 1, levels + s * (negative & (levels > 0)))
            width = (2 * s + 1).bit_length()
            body = bitpack.pack(codes.astype(np.uint16), width).tobytes()
        return scales.tobytes(), body

    return sections


def signed(bits: Bits, format: Format, rng: Rng) -> Sections:
    magnitude, odd = dithering.magnitudes(bits, format)
    codes = np.where(odd, 2, magnitude != 0).astype(np.uint16)
    body = rans.encode(codes, 3, ((bits >= format.sign) & ~odd).astype(np.uint8))
    return dithering.means(bits, format, 0).tobytes(), body


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
            x = casts.to_float64(bits[start : start + size], format)
            step, q = sparse_block(own, x, draws[start : start + size], format, scale)
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
        bound = own.layout(bits.size, format)[1].bound  # type: ignore[attr-defined]
        dithers = own.rounding == "subtractive"
        known = Phases(stream.words(0, bits.size)) if dithers else None
        coded = rans.encode(np.abs(q).astype(np.uint16), bound, (q < 0).astype(np.uint8), known)
        key = (stream.key,) if dithers else ()
        return sent.tobytes(), coded, *key

    return sections


def trellis(own: TrellisPaths) -> Callable[[Bits, Format, Rng], Sections]:
    def sections(bits: Bits, format: Format, rng: Rng) -> Sections:
        how, stream = own.paths(bits.size, format), rng.fork("dither")
        scales, codes, _ = paths_reference.quantised(bits, format, how, stream)
        known = Paths(own.states, stream.words(0, bits.size) if how.dithered else None)
        magnitudes, signs = np.abs(codes).astype(np.uint16), (codes < 0).astype(np.uint8)
        body = rans.encode(magnitudes, how.bound, signs, known)
        return scales.tobytes(), body, *((stream.key,) if how.dithered else ())

    return sections


def sparse_block(
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
    if own.scale == "matched" and q.any():
        matched = np.ldexp(fixed_sum(small * small) / fixed_sum(small * q), exponent)
        step = nearby(matched, scale, up=bool(matched < step))
    if own.rounding != "subtractive" and not q.any():
        if own.rounding == "stochastic":
            return 0, codes
        at = int(np.abs(x).argmax())
        codes[at], alone = np.sign(x[at]), float(abs(x[at]))
        if own.scale == "matched":
            alone = float(np.ldexp(fixed_sum(small * small) / abs(small[at]), exponent))
        step = nearby(alone, scale, up=False)
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


def spherical(own: Spherical) -> Callable[[Bits, Format, Rng], Sections]:
    def sections(bits: Bits, format: Format, rng: Rng) -> Sections:
        stream, how = rng.fork("sphere"), own.sphere(bits.size, format)
        sent = together(
            [searched(bits, format, how, run, rng, stream) for run in runs(how, bits.size)]
        )
        radii, indices, escapes, key = own.layout(bits.size, format)
        return (
            rans.encode(sent.radii.astype(np.uint16), radii.bound),  # type: ignore[attr-defined]
            rice.encode(sent.indices, indices.parameter).tobytes(),  # type: ignore[attr-defined]
            rans.encode(sent.escapes.astype(np.uint16), escapes.bound),  # type: ignore[attr-defined]
            stream.key[: key.count],
        )

    return sections


def undithered(
    operator: Dithering, format: Format, parts: list[npt.NDArray[np.uint8]], count: int
) -> tuple[Bits, int]:
    """The values in sections of dithering, and how many are not finite."""
    how: dithering.Levels = operator.kernel(count, format).numbers
    first, second = (np.array(part) for part in parts)
    number = Blocks.of(count, how.block).number
    sent = (
        bitpack.unpack(first, format.exponent, format.top_code, number)
        if how.natural_scale
        else first.view(format.bits)
    )
    scales = dithering.read_scales(sent, how, format)
    if how.coded:
        sizes, signs = rans.decode(second.tobytes(), how.levels + 2, count, True)
        assert signs is not None
        codes = sizes.astype(np.int32) * (1 - 2 * signs.astype(np.int32))
    else:
        width = (2 * how.levels + 1).bit_length()
        codes = bitpack.unpack(second, width, 2 * how.levels + 2, count)
    out = np.empty(count, format.bits)
    return out, dithering.decode(codes, scales, how, format, out)
