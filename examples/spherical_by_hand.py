"""Spherical compression by hand: sections 4.5 and 5.8 of docs/format.md, for decode_by_hand.py.

It shares no code with the library. Anything but its sections raises `ValueError`.
"""

import functools
import math
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # an isolated Python leaves it out
from coded_by_hand import coded
from formats_by_hand import FLOAT64, Format, Parameters
from tables_by_hand import need

SPHERICAL = 8
SCALES = ("strict", "mmse", "unbiased")
GROUP, QUOTIENTS, LARGEST_PARAMETER, SIGNS = 1024, 32, 22, 1 << 63
LARGEST = sys.float_info.max


def series(alpha: float, size: int) -> float:
    """Section 5.8: the sum S, until a term changes nothing."""
    half, total, term, k = (size - 1) / 2, 0.0, 1.0, 0
    while total + term != total:
        total += term
        term = term * (half + 0.5 + k) / (half + 1 + k) * alpha
        k += 1
    return total


def chance(alpha: float, size: int) -> float:
    """The probability P of a cap."""
    if size == 1:
        return 0.5
    whole, odd = divmod(size - 1, 2)
    power, beta, at = (math.sqrt(alpha), math.pi / 2, 0.5) if odd else (1.0, 1.0, 0.0)
    for _ in range(whole):
        power, beta, at = power * alpha, beta * ((at + 1) / (at + 0.5)), at + 1
    return power * math.sqrt(1 - alpha) * series(alpha, size) / (2 * beta)


@functools.cache
def rice_parameter(alpha: float, size: int) -> int:
    """The parameter with the shortest mean code; too large a one is refused."""
    miss, lengths = 1 - chance(alpha, size), []
    for parameter in range(LARGEST_PARAMETER + 2):
        lengths.append(parameter + 1 / (1 - miss) if miss < 1 else math.inf)
        miss *= miss
    best = lengths.index(min(lengths))
    need(best <= LARGEST_PARAMETER and lengths[best] < math.inf, "caps are too small")
    return best


class Spherical:
    """The parameters, and the numbers that follow from them and from the number of values."""

    def __init__(self, parameters: Parameters) -> None:
        self.alpha, self.block, self.scale = 0.5, 16, "strict"
        text = []
        for number, (kind, value) in parameters.items():
            need(number < 3 and kind == (3, 2, 1)[number], "unknown parameter or type")
            if number == 0:
                self.alpha = FLOAT64.value(value)
                need(0.01 <= self.alpha <= 0.99 and self.alpha != 0.5, "alpha is out of range")
                text.append(f"alpha={self.alpha}")
            elif number == 1:
                self.block = value
                need(2 <= value <= 1024 and value != 16, "block is out of range")
                text.append(f"block={value}")
            else:
                need(0 < value < 3, "unknown choice, or a default is spelled out")
                self.scale = SCALES[value]
                text.append(f"scale={self.scale}")
        most = QUOTIENTS << rice_parameter(self.alpha, self.block)
        need(most * ((self.block + 1) // 2) <= 1 << 32, "caps are too small")
        self.text = ",".join(text)

    def resolve(self, count: int, format: Format) -> None:
        size = max(min(self.block, count), 1)
        self.parameter = rice_parameter(self.alpha, size)
        self.limit = QUOTIENTS << self.parameter
        wanted = 1.5 * (size - 1) * (1 - self.alpha) / self.alpha
        self.bits = 2 if wanted <= 16 else 3 if wanted <= 64 else 4
        self.least = 1 - format.bias - format.mantissa
        powers = format.bias + 2 + (size.bit_length() + 1) // 2 - self.least
        self.nan = (powers << self.bits) + 1
        self.grid = 1
        while self.grid * self.grid * self.alpha < 10 * size:
            self.grid = 2 * self.grid + 1

    def rho(self, size: int) -> float:
        root = math.sqrt(1 - self.alpha)
        mean = 1 / (root * series(self.alpha, size)) if size > 1 else 1.0
        return {"strict": root, "mmse": mean, "unbiased": 1 / mean}[self.scale]


def rice(data: bytes, parameter: int, bound: int, count: int) -> list[int]:
    """Section 4.5: all low bits, then all quotients in unary."""
    bits = "".join(f"{byte:08b}"[::-1] for byte in data)
    need(len(bits) >= count * (parameter + 1), "a section is cut")
    at, numbers = count * parameter, []
    for i in range(count):
        end = bits.find("0", at)
        need(end >= 0, "a section is cut")
        low = bits[i * parameter : (i + 1) * parameter][::-1]
        numbers.append((end - at << parameter) + int(low or "0", 2))
        at = end + 1
    need(len(bits) - at < 8 and "1" not in bits[at:], "bits are left over")
    need(max(numbers, default=0) < bound, "a number is too large")
    return numbers


def word(key: bytes, i: int) -> int:
    """Chapter 9: word i of a stream."""
    k = [int.from_bytes(key[at : at + 4], "little") for at in range(0, 16, 4)]
    high, low = divmod(i, 1 << 32)

    def mixed(x: int, second: int) -> int:
        x = ((x ^ x >> 16) * 0x7FEB352D + second) % (1 << 32)
        x = (x ^ x >> 15) * 0x846CA68B % (1 << 32)
        return x ^ x >> 16

    first, second = (
        (k[n] + mixed((0x9E3779B1 * high + k[n + 2]) % (1 << 32), 0)) % (1 << 32) for n in (0, 1)
    )
    return mixed((0x9E3779B1 * low + first) % (1 << 32), second)


@functools.cache
def normal(k: int) -> int:
    """Entry k of the table."""
    return 2 * math.floor(128 * statistics.NormalDist().inv_cdf((k + 0.5) / 65536)) + 1


def direction(key: bytes, group: int, index: int, size: int) -> list[int]:
    """The whole numbers that point into a direction."""
    first = (group << 32) + index * ((size + 1) // 2)
    words = [word(key, first + i // 2) for i in range(size)]
    return [normal(w >> 16 if i % 2 else w & 0xFFFF) for i, w in enumerate(words)]


def scaled(number: float, exponent: int) -> float:
    """A number times a power of two; the largest number instead of infinity."""
    try:
        return math.ldexp(number, exponent)
    except OverflowError:
        return math.copysign(LARGEST, number)


def spherical(
    parameters: Parameters, sections: list[bytes], format: Format, count: int
) -> tuple[str, list[int]]:
    """Section 5.8: spec and the bits of every value."""
    own = Spherical(parameters)
    own.resolve(count, format)
    need(len(sections) == 4, "wrong number of sections")
    sizes = [min(own.block, count - start) for start in range(0, count, own.block)]
    radii, _ = coded(sections[0], own.nan + 1, False, len(sizes))
    live = sum(0 < radius < own.nan for radius in radii)
    numbers = iter(rice(sections[1], own.parameter, own.limit + 1, live))
    codes, _ = coded(sections[2], own.grid + 2, False, count)
    key = sections[3]
    need(len(key) == (16 if count else 0), "the key has the wrong length")
    result: list[int] = []
    for block, (radius, size) in enumerate(zip(radii, sizes, strict=True)):
        start = len(result)
        mine = codes[start : start + size]
        index = next(numbers) if 0 < radius < own.nan else 0
        escaped = index == own.limit
        need(all((code > 0) == escaped for code in mine), "codes of an escaped block")
        if not 0 < radius < own.nan:
            result += [format.quiet_nan if radius else 0] * size
            continue
        power, rest = divmod(radius - 1, 1 << own.bits)
        factor = 1 + rest / (1 << own.bits)
        if escaped:
            wide = factor * (1 + 2.0**-own.bits)
            values = [(2 * (code - 1) - own.grid) / own.grid * wide for code in mine]
        else:
            whole = size == own.block
            group = block // GROUP if whole else -(-block // GROUP)
            vector = direction(key, group, index, size)
            unit = factor * own.rho(size) / math.sqrt(sum(v * v for v in vector))
            flips = [word(key, SIGNS + i // 32) >> i % 32 & 1 for i in range(start, start + size)]
            values = [(-v if flip else v) * unit for v, flip in zip(vector, flips, strict=True)]
        result += [format.nearest(scaled(value, power + own.least)) for value in values]
    return "spherical" + ":" * bool(own.text) + own.text, result
