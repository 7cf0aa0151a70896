"""Section 5.9 of docs/format.md: stages, which come before an operator.

A function of `STAGES` reads a stage's parameters for `d` values. It returns the stage's spec, a
function that joins values with the stage's sections, the number of its sections, and how many
values it hands on.
"""

import math
from collections.abc import Callable

from formats_by_hand import FLOAT32, FLOAT64, Format, Parameters
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


def log2(n: int) -> int:
    """The table's L(n): 2^32 times the logarithm, digit by digit."""
    whole = n.bit_length() - 1
    x, result = n << 62 >> whole, whole
    for _ in range(32):
        x, result = x * x >> 62, 2 * result
        if x >> 63:
            x, result = x >> 1, result + 1
    return result


def chances(d: int, n: int) -> list[int]:
    """65,536 times the probability that digit j of a gap is 1."""
    theta, found = ((d - n) << 62) // d, []
    for _ in range((d - n).bit_length()):
        found.append(max(1, -((-theta << 16) // ((1 << 62) + theta))))
        theta = theta * theta >> 62
    return found


def read_gaps(data: bytes, d: int, n: int) -> list[int]:
    """The gaps that a range coder has written; `code` and `span` are relative to its interval."""
    code, span, at, gaps = int.from_bytes(data[:8].ljust(8, b"\0"), "big"), 2**64 - 1, 8, []
    for _ in range(n):
        gap = 0
        for chance in reversed(chances(d, n)):
            bound = (span >> 16) * chance
            one = code < bound
            code, span = (code, bound) if one else (code - bound, span - bound)
            gap = 2 * gap + one
            while span < 2**56:
                code, span = code << 8 | (data[at] if at < len(data) else 0), span << 8
                at += 1
        gaps.append(gap)
    return gaps


def write_gaps(gaps: list[int], d: int) -> bytes:
    """The bytes of the gaps: the shortest number in the range coder's interval."""
    low, span, size = 0, 2**64 - 1, 8
    for gap in gaps:
        own = chances(d, len(gaps))
        for digit in range(len(own) - 1, -1, -1):
            bound = (span >> 16) * own[digit]
            one = gap >> digit & 1
            low, span = (low, bound) if one else (low + bound, span - bound)
            while span < 2**56:
                low, span, size = low << 8, span << 8, size + 1
    return ((low + 2**56 - 1) >> 56).to_bytes(size - 7, "big")


def top_k(parameters: Parameters, _format: Format, d: int) -> Read:
    """Section 5.9.1."""
    spec, k = fraction(parameters, "top-k", d)
    n = min(k, d - k)

    def join(sections: list[bytes], bits: list[int], d: int) -> list[int]:
        (data,) = sections
        entropy = d * log2(d) - n * log2(n) - (d - n) * log2(d - n) if n else 0
        size = ((entropy >> 32) + n // 512 + 23) // 8 if n else 0
        need(len(data) == size, "a section has the wrong length")
        gaps, places, place = read_gaps(data, d, n), [], -1
        for gap in gaps:
            place += gap + 1
            places.append(place)
        need(place < d, "a place beyond the end")
        need(not n or write_gaps(gaps, d).ljust(size, b"\0") == data, "not as encoders write it")
        listed = set(places)
        kept = [place for place in range(d) if (place in listed) == (k == n)]
        return spread(kept, bits, d)

    return spec, join, 1, k


def rand_k(parameters: Parameters, _format: Format, d: int) -> Read:
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


def hadamard(parameters: Parameters, format: Format, d: int) -> Read:
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


STAGES = {10: top_k, 11: rand_k, 12: hadamard}
