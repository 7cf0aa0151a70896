"""Section 5.9 of docs/format.md: stages, which come before an operator.

A function of `STAGES` reads a stage's parameters for `d` values in a frame of a version. It returns
the stage's spec, a function that joins values with the stage's sections, the number of its
sections, and how many values it hands on.
"""

import math
from collections.abc import Callable

from formats_by_hand import FLOAT32, FLOAT64, Format, Parameters
from places_by_hand import places, ranged
from random_by_hand import words
from tables_by_hand import need

Join = Callable[[list[bytes], list[int], int], list[int]]
Read = tuple[str, Join, int, int]

COMMON_SIGNS = bytes.fromhex("8d 54 4c 39 18 27 f6 9c 71 b7 a2 36 f7 4d 6c 20")


def fraction(parameters: Parameters, name: str, d: int) -> tuple[str, int]:
    """The spec of a stage that keeps a fraction of `d` values, and how many those are."""
    need(parameters.keys() <= {0}, "unknown parameter")
    kind, bits = parameters.get(0, (3, FLOAT64.nearest(0.1)))
    own = FLOAT64.value(bits)
    need(kind == 3 and 0 < own <= 1 and (not parameters or own != 0.1), "not a fraction")
    text = f":fraction={str(own).removesuffix('.0')}" if parameters else ""
    return name + text, min(d, max(1, int(own * d + 0.5)))


def spread(places: list[int], bits: list[int], d: int) -> list[int]:
    """Values at their places, zeros elsewhere."""
    values = dict(zip(places, bits, strict=True))
    return [values.get(place, 0) for place in range(d)]


def top_k(parameters: Parameters, _format: Format, d: int, version: int) -> Read:
    """Section 5.9.1."""
    spec, k = fraction(parameters, "top-k", d)
    n = min(k, d - k)

    def join(sections: list[bytes], bits: list[int], d: int) -> list[int]:
        listed = set((ranged if version == 1 else places)(sections[0], d, n))
        kept = [place for place in range(d) if (place in listed) == (k == n)]
        return spread(kept, bits, d)

    return spec, join, 1, k


def rand_k(parameters: Parameters, _format: Format, d: int, _version: int) -> Read:
    """Section 5.9.2."""
    spec, k = fraction(parameters, "rand-k", d)

    def join(sections: list[bytes], bits: list[int], d: int) -> list[int]:
        drawn = words(sections[0], d)
        order = sorted(range(d), key=lambda place: (-drawn[place], place))
        return spread(sorted(order[:k]), bits, d)

    return spec, join, 1, k


def turned_back(values: list[float], work: Format) -> list[float]:
    """One block without its signs, every operation rounded to `work`."""

    def rounded(x: float) -> float:
        return x if work is FLOAT64 else work.value(work.nearest(x))

    size = len(values)
    huge = max(map(abs, values)) >= 2.0 ** (work.bias - 16)
    values = [rounded(x * 2.0**-16) for x in values] if huge else list(values)
    h = 1
    while h < size:
        for i in range(size):
            if i % (2 * h) < h:
                a, b = values[i], values[i + h]
                values[i], values[i + h] = rounded(a + b), rounded(a - b)
        h *= 2
    exponent = size.bit_length() - 1
    scale = (rounded(math.sqrt(0.5)) if exponent % 2 else 1.0) * 2.0 ** -(exponent // 2)
    most = work.value(work.infinity - 1)
    values = [rounded(x * scale) for x in values]
    return [max(-most, min(most, x * 2.0**16)) for x in values] if huge else values


def hadamard(parameters: Parameters, format: Format, d: int, _version: int) -> Read:
    """Section 5.9.3."""
    need(parameters.keys() <= {0, 1}, "unknown parameter")
    kind, block = parameters.get(0, (2, 4096))
    whole = 2 <= block <= 65536 and block.bit_count() == 1
    need(kind == 2 and whole and (0 not in parameters or block != 4096), "not a block")
    need(parameters.get(1, (1, 1)) == (1, 1), "unknown type or choice")
    private = 1 in parameters
    fields = [f"block={block}"] * (0 in parameters) + ["signs=private"] * private

    def join(sections: list[bytes], bits: list[int], d: int) -> list[int]:
        signs = words(sections[0] if private else COMMON_SIGNS, d)
        start, size, out = 0, block, []
        while start < d:
            while size > d - start:
                size //= 2
            own = [format.value(value) for value in bits[start : start + size]]
            if all(map(math.isfinite, own)):
                turned = turned_back(own, FLOAT64 if format is FLOAT64 else FLOAT32)
                pairs = zip(turned, signs[start : start + size], strict=True)
                out += [format.nearest(x) ^ (format.sign if w >> 31 else 0) for x, w in pairs]
            else:
                out += [format.quiet_nan] * size
            start += size
        return out

    return "hadamard" + ":" * bool(fields) + ",".join(fields), join, int(private), d


def scale(parameters: Parameters, _format: Format, d: int, _version: int) -> Read:
    """Section 5.9.4."""
    need(parameters.keys() <= {0}, "unknown parameter")
    kind, bits = parameters.get(0, (3, FLOAT64.nearest(0.125)))
    omega = FLOAT64.value(bits)
    need(kind == 3 and omega >= 0 and (not parameters or omega != 0.125), "not an omega")
    spec = f"scale:omega={str(omega).removesuffix('.0')}" if parameters else "scale"
    return spec, lambda _sections, handed, _d: handed, 0, d


TOP_K = 10
STAGES = {TOP_K: top_k, 11: rand_k, 12: hadamard, 13: scale}
