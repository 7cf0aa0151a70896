"""Trellises by hand: 5.10 of docs/format.md, for decode_by_hand.py.

It shares no code with the library. Anything but its sections raises `ValueError`.
"""

import math
from typing import Any

from coded_by_hand import coded
from formats_by_hand import FLOAT32, FLOAT64, Format, Parameters
from paths_by_hand import Paths
from random_by_hand import words
from tables_by_hand import need

TRELLIS = 14
NAMES = ("nu", "rounding", "scale", "states", "bits")
INTEGER, FLOAT = 2, 3  # types of parameters; choices have type 1
CHOICES = {
    "rounding": ("nearest", "subtractive"),
    "scale": ("norm", "least-squares"),
    "states": (4, 8, 16),
}
DEFAULTS = {"nu": 0.1, "rounding": "nearest", "scale": "norm", "states": 8, "bits": 0.0}


def read_parameters(parameters: Parameters) -> tuple[str, dict[str, Any]]:
    """The spec, and every parameter by its name."""
    fields: dict[str, Any] = dict(DEFAULTS)
    for number, (kind, value) in parameters.items():
        need(number < len(NAMES), "unknown parameter")
        name = NAMES[number]
        if name == "states" and kind == INTEGER:  # as the first frames have it
            fields[name] = value - (value >> 63 << 64)
            need(fields[name] in CHOICES[name], "no such trellis")
        else:
            need(kind == (1 if name in CHOICES else FLOAT), "unknown type")
            need(name not in CHOICES or value < len(CHOICES[name]), "unknown choice")
            fields[name] = CHOICES[name][value] if name in CHOICES else FLOAT64.value(value)
        need(fields[name] != DEFAULTS[name], "a default is spelled out")
    nu, bits, nearest = fields["nu"], fields["bits"], fields["rounding"] == "nearest"
    fitted = fields["scale"] == "least-squares"
    need(nu > 0 and (nu < 1 or fitted or not nearest), "a number is out of range")
    need(nearest or not fitted, "least squares are for nearest rounding")
    least = (0.1 if fitted else 1.5) if nearest else 0.5
    need(not bits or least <= bits <= 14, "a number is out of range")
    need(not bits or nu == DEFAULTS["nu"], "nu and bits")
    spelled = (
        f"{NAMES[number]}={str(fields[NAMES[number]]).removesuffix('.0')}" for number in parameters
    )
    return "trellis" + ":" * bool(parameters) + ",".join(spelled), fields


def coarsest(fields: dict[str, Any]) -> float:
    """The nu that bounds follow from."""
    nu, dithered = fields["nu"], fields["rounding"] == "subtractive"
    if fields["bits"]:
        most = 6 / (4 ** fields["bits"] - 1) if dithered else 8 * 4 ** -fields["bits"]
        if fields["scale"] == "norm" and not dithered:
            most = min(most, 15 / 16)
        fraction, exponent = math.frexp(most)
        nu = math.ldexp(int(fraction * 128), exponent - 7)
    return min(nu, 15 / 16) if fields["scale"] == "least-squares" else nu


def trellis(
    parameters: Parameters, sections: list[bytes], format: Format, count: int
) -> tuple[str, list[int]]:
    """Section 5.10: the spec and the bits of every value."""
    spec, fields = read_parameters(parameters)
    dithered, nu = fields["rounding"] == "subtractive", coarsest(fields)
    root, unit = math.sqrt(nu / 3 if dithered else nu), 2.0 ** -(format.mantissa + 1)
    shrink = 31 / 32 * (1 - unit * (1 + root) / root - 2.0**-20)
    need(shrink >= 2 / 3, "nu is too fine for the format")
    bound = 65536 if fields["bits"] else int(1.000001 * math.sqrt(count / nu) / shrink) + 8
    need(bound <= 65536, "nu is too fine for the size")
    scale = FLOAT64 if format is FLOAT64 else FLOAT32
    need(len(sections) == 2 + dithered, "wrong number of sections")
    need(len(sections[0]) == scale.size * min(count, 1), "a section has the wrong length")
    draws = words(sections[2], count) if dithered else None
    codes, signs = coded(sections[1], bound, True, count, Paths(fields["states"], draws))
    if not count:
        return spec, []
    sent = int.from_bytes(sections[0], "little")
    need(sent < scale.infinity or sent == scale.quiet_nan, "not a scale")
    need(sent not in (0, scale.quiet_nan) or not any(codes), "codes without a scale")
    largest = scale.value(scale.infinity - 1) if scale.size == 8 else math.inf
    result = []
    for i, (code, sign) in enumerate(zip(codes, signs, strict=True)):
        y = float(-code if sign else code)
        if draws is not None:
            u = ((draws[i] >> 1) + 0.5) * 2.0**-29
            y = u - y if draws[i] & 1 else y - u
        y = y * scale.value(sent) + 0.0
        result.append(format.nearest(y if math.isnan(y) else min(max(y, -largest), largest)))
    return spec, result
