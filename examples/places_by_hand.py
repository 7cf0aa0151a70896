"""Section 4.6 of docs/format.md, sets of places, and 5.9.1 for how version 1 has them."""

from coded_by_hand import need


def places(data: bytes, d: int, n: int) -> list[int]:
    """`n` of `d` places, in ascending order."""
    low, zeros = 0, d - n
    while n and (zeros + 1) // 2 > n:
        low, zeros = low + 1, zeros // 2
    cut, bits = (n * low + 7) // 8, n + zeros
    need(len(data) == (cut + (bits + 7) // 8 if n else 0), "a section has the wrong length")
    lows, string = (int.from_bytes(part, "little") for part in (data[:cut], data[cut:]))
    need(lows >> n * low == 0 and string >> bits == 0, "padding is not zero")
    ones = [at for at in range(bits) if string >> at & 1]
    need(len(ones) == n, "not as many places as there must be")
    numbers = [
        ((at - i) << low) + (lows >> i * low & ((1 << low) - 1)) for i, at in enumerate(ones)
    ]
    need(numbers == sorted(numbers), "places are out of order")
    need(not n or numbers[-1] <= d - n, "a place beyond the end")
    return [number + i for i, number in enumerate(numbers)]


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


def ranged(data: bytes, d: int, n: int) -> list[int]:
    """The same as version 1 has it."""
    entropy = d * log2(d) - n * log2(n) - (d - n) * log2(d - n) if n else 0
    size = ((entropy >> 32) + n // 512 + 23) // 8 if n else 0
    need(len(data) == size, "a section has the wrong length")
    gaps, found, place = read_gaps(data, d, n), [], -1
    for gap in gaps:
        place += gap + 1
        found.append(place)
    need(place < d, "a place beyond the end")
    need(not n or write_gaps(gaps, d).ljust(size, b"\0") == data, "not as encoders write it")
    return found
