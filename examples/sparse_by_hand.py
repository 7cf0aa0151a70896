"""Sparse dithering by hand: sections 4.4 and 5.7 of docs/format.md, for decode_by_hand.py.

It shares no code with the library. Anything but its sections raises `ValueError`.
"""

import math
import operator
from typing import Any

from coded_by_hand import coded
from formats_by_hand import FLOAT32, FLOAT64, Format, Parameters
from random_by_hand import words
from tables_by_hand import Bytes, need

SPARSE = 7
NAMES = ("nu", "rounding", "coder", "scale", "block")
TYPES = (3, 1, 1, 1, 2)
CHOICES = {
    "rounding": ("nearest", "stochastic", "subtractive"),
    "coder": ("rans", "paper"),
    "scale": ("norm", "least-squares", "matched"),
}
DEFAULTS = {"nu": 0.1, "rounding": "nearest", "coder": "rans", "scale": "norm", "block": 0}


def read_parameters(parameters: Parameters) -> tuple[str, dict[str, Any]]:
    """The spec, and every parameter by its name."""
    fields = dict(DEFAULTS)
    for number, (kind, value) in parameters.items():
        need(number < len(NAMES) and kind == TYPES[number], "unknown parameter or type")
        name = NAMES[number]
        if name in CHOICES:
            need(value < len(CHOICES[name]), "unknown choice")
            fields[name] = CHOICES[name][value]
        else:
            fields[name] = FLOAT64.value(value) if name == "nu" else value - (value >> 63 << 64)
        need(fields[name] != DEFAULTS[name], "a default is spelled out")
    need(fields["nu"] > 0 and fields["block"] >= 0, "a number is out of range")
    exact = fields["rounding"] == "nearest"
    need(exact or fields["scale"] == "norm", "least squares are for nearest rounding")
    need(fields["coder"] == "rans" or fields["rounding"] != "subtractive", "not in the paper")
    spelled = (
        f"{NAMES[number]}={str(fields[NAMES[number]]).removesuffix('.0')}" for number in parameters
    )
    return "sparse-dithering" + ":" * bool(parameters) + ",".join(spelled), fields


def code_bound(fields: dict[str, Any], format: Format, size: int) -> int:
    """Section 5.7: the bound on the codes of blocks of at most `size` values."""
    nu, rounding = fields["nu"], fields["rounding"]
    wide = rounding == "stochastic" and nu > 1
    error = nu / 3 if rounding == "subtractive" else 2 * math.sqrt(nu) - 1 if wide else nu
    unit, root = 2.0 ** -(format.mantissa + 1), math.sqrt(error)
    shrink = 1 - (2 if wide else 1) * unit * (1 + root) / root - 2.0**-32
    need(shrink >= 2 / 3, "nu is too fine for the format")
    spread = 1.000001 / (2 * math.sqrt(nu) * shrink)
    need(math.sqrt(size) * spread + 1 < 65535, "nu is too fine for the size")
    return min(int(0.751 * math.sqrt(size / nu)) + 2, 65536)


class BitString:
    """Section 4.4: bits from the lowest of each byte on."""

    def __init__(self, data: bytes) -> None:
        self.value, self.left = int.from_bytes(data, "little"), 8 * len(data)

    def number(self, width: int) -> int:
        need(width <= self.left, "a stream is cut")
        value = self.value & ((1 << width) - 1)
        self.value >>= width
        self.left -= width
        return value

    def unary(self, bound: int) -> int:
        number = 1
        while self.number(1):
            number += 1
            need(number < bound, "a code is too large")
        return number


def enumerated(
    data: bytes, sizes: list[int], scale: Format, bound: int
) -> tuple[list[int], list[int]]:
    """Section 4.4: the bits of all scales, and all codes."""
    bits = BitString(data)
    scales, codes = [], []
    for size in sizes:
        scales.append(bits.number(scale.exponent + scale.mantissa))
        own = [0] * size
        if 0 < scales[-1] < scale.infinity:
            zeros = bits.number(size.bit_length())
            need(zeros <= size, "too many zeros")
            sets = math.comb(size, zeros)
            number = bits.number((sets - 1).bit_length())
            need(number < sets, "no set has this number")
            used = list(range(size))
            for place in range(size - 1, -1, -1):  # the largest member first
                if zeros and math.comb(place, zeros) <= number:
                    number -= math.comb(place, zeros)
                    zeros -= 1
                    used.remove(place)
            signs = [bits.number(1) for _ in used]
            for place, sign in zip(used, signs, strict=True):
                own[place] = bits.unary(bound) * (-1 if sign else 1)
        codes += own
    need(bits.left < 8 and bits.value == 0, "a stream does not end where its section ends")
    return scales, codes


def sparse_dithering(
    parameters: Parameters, sections: list[bytes], format: Format, count: int
) -> tuple[str, list[int]]:
    """Section 5.7: the spec and the bits of every value."""
    spec, fields = read_parameters(parameters)
    scale = FLOAT64 if format is FLOAT64 else FLOAT32
    block = fields["block"] or count
    sizes = [min(block, count - start) for start in range(0, count, block or 1)]
    widest = max(sizes, default=0)
    bound = code_bound(fields, format, widest)
    subtractive = fields["rounding"] == "subtractive"
    if fields["coder"] == "paper":
        need(widest <= 4096 and len(sections) == 1, "not a stream of the paper")
        scales, codes = enumerated(sections[0], sizes, scale, bound)
    else:
        need(len(sections) == 2 + subtractive, "wrong number of sections")
        need(len(sections[0]) == scale.size * len(sizes), "a section has the wrong length")
        left = Bytes(sections[0])
        scales = [left.number(scale.size) for _ in sizes]
        draws = words(sections[2], count) if subtractive else []
        magnitudes, signs = coded(sections[1], bound, True, count, draws)
        codes = list(map(operator.mul, magnitudes, (1 - 2 * sign for sign in signs)))
    largest = scale.value(scale.infinity - 1) if scale.size == 8 else math.inf
    result: list[int] = []
    for sent, size in zip(scales, sizes, strict=True):
        need(sent < scale.infinity or sent == scale.quiet_nan, "not a scale")
        own = codes[len(result) : len(result) + size]
        bare = sent in (0, scale.quiet_nan)
        need(not (bare and any(own)), "codes without a scale")
        need(bare or any(own) or subtractive, "a scale without codes")
        for q in own:
            u = (draws[len(result)] + 0.5) * 2.0**-32 - 0.5 if subtractive else 0.0
            y = (q - u) * scale.value(sent) + 0.0
            y = y if math.isnan(y) else min(max(y, -largest), largest)
            result.append(format.nearest(y))
    return spec, result
