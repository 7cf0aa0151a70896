"""Trellises by hand: 5.10 of docs/format.md, for decode_by_hand.py.

It shares no code with the library. Anything but its sections raises `ValueError`.
"""

import math
from typing import Any

from coded_by_hand import coded
from formats_by_hand import FLOAT32, FLOAT64, Format, Parameters
from paths_by_hand import EDGES, Paths
from random_by_hand import words
from tables_by_hand import need

TRELLIS = 14
NAMES, TYPES = ("nu", "rounding", "scale", "states"), (3, 1, 1, 2)
CHOICES = {"rounding": ("nearest", "subtractive"), "scale": ("norm", "least-squares")}
DEFAULTS = {"nu": 0.1, "rounding": "nearest", "scale": "norm", "states": 8}


def read_parameters(parameters: Parameters) -> tuple[str, dict[str, Any]]:
    """The spec, and every parameter by its name."""
    fields: dict[str, Any] = dict(DEFAULTS)
    for number, (kind, value) in parameters.items():
        need(number < len(NAMES) and kind == TYPES[number], "unknown parameter or type")
        name = NAMES[number]
        if name in CHOICES:
            need(value < len(CHOICES[name]), "unknown choice")
            fields[name] = CHOICES[name][value]
        else:
            fields[name] = FLOAT64.value(value) if name == "nu" else value - (value >> 63 << 64)
        need(fields[name] != DEFAULTS[name], "a default is spelled out")
    nearest = fields["rounding"] == "nearest"
    need(fields["nu"] > 0 and (fields["nu"] < 1 or not nearest), "a number is out of range")
    need(fields["states"] in EDGES, "no such trellis")
    need(nearest or fields["scale"] == "norm", "least squares are for nearest rounding")
    spelled = (
        f"{NAMES[number]}={str(fields[NAMES[number]]).removesuffix('.0')}" for number in parameters
    )
    return "trellis" + ":" * bool(parameters) + ",".join(spelled), fields


def trellis(
    parameters: Parameters, sections: list[bytes], format: Format, count: int
) -> tuple[str, list[int]]:
    """Section 5.10: the spec and the bits of every value."""
    spec, fields = read_parameters(parameters)
    nu, dithered = fields["nu"], fields["rounding"] == "subtractive"
    root, unit = math.sqrt(nu / 3 if dithered else nu), 2.0 ** -(format.mantissa + 1)
    shrink = 31 / 32 * (1 - unit * (1 + root) / root - 2.0**-20)
    need(shrink >= 2 / 3, "nu is too fine for the format")
    bound = int(1.000001 * math.sqrt(count / nu) / shrink) + 8
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
