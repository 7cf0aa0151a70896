"""Signs and dithering by hand: sections 5.4 to 5.6 of docs/format.md, for decode_by_hand.py.

It shares no code with the library. Sections that no encoder writes raise `ValueError`.
"""

import math
from typing import Any

from coded_by_hand import coded
from formats_by_hand import Format, Parameters
from tables_by_hand import Bytes, need, packed

NATURAL, STANDARD, SIGN = 5, 6, 9
DITHERED = {NATURAL: "natural-dithering", STANDARD: "standard-dithering", SIGN: "sign"}
CHOICE, INTEGER, FLOAT = 1, 2, 3
DITHERING = (
    ("p", FLOAT, math.inf),
    ("levels", INTEGER, 7),
    ("block", INTEGER, 0),
    ("scale", CHOICE, "exact", "natural"),
    ("coder", CHOICE, "packed", "rans"),
)
FIELDS = {NATURAL: DITHERING, STANDARD: DITHERING, SIGN: (("block", INTEGER, 0),)}


def read_parameters(code: int, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    """The spec, and every parameter by its name."""
    fields = FIELDS[code]
    values: dict[str, Any] = {field[0]: field[2] for field in fields}
    spelled = []
    for number, (kind, raw) in parameters.items():
        need(number < len(fields), "unknown parameter")
        name, own, *choices = fields[number]
        need(kind == own, "wrong type of parameter")
        if kind == FLOAT:
            need(raw == 0 or 1023 <= raw >> 52 < 2047, "no such norm")  # 1 or more, or infinite
            mantissa = raw % (1 << 52) + (1 << 52)
            value = math.ldexp(mantissa, (raw >> 52) - 1075) if raw else math.inf
        elif kind == INTEGER:
            value = raw - (raw >> 63 << 64)
        else:
            need(raw < len(choices), "unknown choice")
            value = choices[raw]
        need(value != choices[0], "a parameter is at its default")
        values[name] = value
        spelled.append(f"{name}={str(value).removesuffix('.0')}")
    block, most = values["block"], 127 if code == NATURAL else 32767
    need(block == 0 or (8 <= block <= 65536 and block & (block - 1) == 0), "no such block")
    need(1 <= values.get("levels", 1) <= most, "no such number of levels")
    return ":".join([DITHERED[code], *([",".join(spelled)] if spelled else [])]), values


def read_scales(section: bytes, format: Format, number: int, natural: bool) -> list[float]:
    """Norms: values of the frame's dtype, or exponent codes."""
    if natural:
        codes = packed(section, format.exponent, number, format.top)
        return [format.value(code << format.mantissa) for code in codes]
    need(len(section) == number * format.size, "a section has the wrong length")
    source = Bytes(section)
    bits = [source.number(format.size) for _ in range(number)]
    need(all(scale < format.infinity for scale in bits), "a scale is negative or not finite")
    return [format.value(scale) for scale in bits]


def read_levels(section: bytes, s: int, count: int, entropy: bool) -> list[tuple[int, int]]:
    """Level and sign of each element; level s + 1 is NaN."""
    if entropy:
        pairs = list(zip(*coded(section, s + 2, True, count), strict=True))
        need(all(level <= s for level, sign in pairs if sign), "a sign on NaN")
        return pairs
    codes = packed(section, (2 * s + 1).bit_length(), count, 2 * s + 2)
    signed = [(code - s, 1) if s < code <= 2 * s else (code, 0) for code in codes]
    return [(s + 1, 0) if level > s else (level, sign) for level, sign in signed]


def dithered(
    code: int, parameters: Parameters, sections: list[bytes], format: Format, count: int
) -> tuple[str, list[int]]:
    """Sections 5.4 to 5.6: the spec and the bits of every value."""
    spec, own = read_parameters(code, parameters)
    need(len(sections) == 2, "wrong number of sections")
    s = own.get("levels", 1)
    size = own["block"] or max(count, 1)
    natural = own.get("scale") == "natural"
    scales = read_scales(sections[0], format, -(-count // size), natural)
    levels = read_levels(sections[1], s, count, own.get("coder", "rans") == "rans")
    bits = []
    for i, (level, sign) in enumerate(levels):
        scale = scales[i // size]
        if level > s:
            bits.append(format.quiet_nan)
            continue
        need(scale > 0 or level == 0, "a level above 0 in a block of zeros")
        value = math.ldexp(scale, level - s) if code == NATURAL and level else scale * (level / s)
        bits.append(format.nearest(value) | sign * format.sign)
    return spec, bits
