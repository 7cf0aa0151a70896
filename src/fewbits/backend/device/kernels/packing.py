"""Codes of a fixed number of bits, least significant bit first, in tiles of eight codes a line.

Eight codes of any width fill whole bytes, so a line needs no bit of its neighbours.
"""

from fewbits.backend.device.language import tl, triton


@triton.jit
def _halves(codes, LINES: tl.constexpr, WIDTH: tl.constexpr):
    """The codes of each line as two numbers, four codes each."""
    if WIDTH <= 8:
        wide = codes
    else:
        wide = codes.to(tl.uint64)
    place = (tl.arange(0, 8) % 4 * WIDTH).to(wide.dtype)
    fours = tl.sum(tl.reshape(wide << place[None, :], [LINES, 2, 4]), axis=2)
    return tl.split(fours)


@triton.jit
def write_codes(
    section, codes, line, left, LINES: tl.constexpr, WIDTH: tl.constexpr, MASKED: tl.constexpr
):
    """Write a tile of codes, unsigned 32-bit numbers 0 behind the last.

    `line` are the numbers of the lines, `left` is how many codes there are.
    """
    end = (left * WIDTH + 7) // 8
    if WIDTH == 8:
        at = line[:, None] * 8 + tl.arange(0, 8)[None, :]
        _write(section + at, codes, at < end, MASKED)
    elif WIDTH < 8 and (WIDTH & (WIDTH - 1)) == 0:
        column = tl.arange(0, 8).to(tl.uint32)
        word = tl.sum(codes << (column * WIDTH)[None, :], axis=1)
        byte = tl.arange(0, WIDTH)
        at = line[:, None] * WIDTH + byte[None, :]
        _write(section + at, word[:, None] >> (8 * byte)[None, :].to(tl.uint32), at < end, MASKED)
    else:
        low, high = _halves(codes, LINES, WIDTH)
        for byte in tl.static_range(WIDTH):
            if 8 * byte + 8 <= 4 * WIDTH:
                own = low >> (8 * byte)
            elif 8 * byte >= 4 * WIDTH:
                own = high >> (8 * byte - 4 * WIDTH)
            else:
                own = (low >> (8 * byte)) | (high << (4 * WIDTH - 8 * byte))
            at = line * WIDTH + byte
            _write(section + at, own, at < end, MASKED)


@triton.jit
def _write(place, numbers, mask, MASKED: tl.constexpr):
    """Store low bytes; without a mask stores can be wide."""
    if MASKED:
        tl.store(place, (numbers & 255).to(tl.uint8), mask=mask)
    else:
        tl.store(place, (numbers & 255).to(tl.uint8))


@triton.jit
def _read(place, mask, MASKED: tl.constexpr):
    """Load bytes, 0 where the mask is not set."""
    if MASKED:
        return tl.load(place, mask=mask, other=0)
    else:
        return tl.load(place)


@triton.jit
def read_codes(section, line, left, LINES: tl.constexpr, WIDTH: tl.constexpr, MASKED: tl.constexpr):
    """A tile of codes as unsigned 32-bit numbers; behind the last are the unused bits, then 0."""
    end = (left * WIDTH + 7) // 8
    column = tl.arange(0, 8)
    if WIDTH == 8:
        at = line[:, None] * 8 + column[None, :]
        return _read(section + at, at < end, MASKED).to(tl.uint32)
    elif WIDTH < 8 and (WIDTH & (WIDTH - 1)) == 0:
        at = line[:, None] * WIDTH + (column * WIDTH // 8)[None, :]
        byte = _read(section + at, at < end, MASKED).to(tl.uint32)
        return (byte >> (column * WIDTH % 8)[None, :].to(tl.uint32)) & ((1 << WIDTH) - 1)
    else:
        kind: tl.constexpr = tl.uint32 if WIDTH <= 8 else tl.uint64
        low = tl.zeros([LINES], kind)
        high = tl.zeros([LINES], kind)
        for byte in tl.static_range(WIDTH):
            at = line * WIDTH + byte
            own = _read(section + at, at < end, MASKED).to(kind)
            if 8 * byte + 8 <= 4 * WIDTH:
                low |= own << (8 * byte)
            elif 8 * byte >= 4 * WIDTH:
                high |= own << (8 * byte - 4 * WIDTH)
            else:
                low |= (own << (8 * byte)) & ((1 << (4 * WIDTH)) - 1)
                high |= own >> (4 * WIDTH - 8 * byte)
        fours = tl.where((column < 4)[None, :], low[:, None], high[:, None])
        place = (column % 4 * WIDTH)[None, :].to(kind)
        return ((fours >> place) & ((1 << WIDTH) - 1)).to(tl.uint32)


@triton.jit
def read_number(section, at, mask, SIZE: tl.constexpr):
    """Little-endian numbers of `SIZE` bytes, wherever they lie."""
    number = tl.load(section + at * SIZE, mask=mask, other=0).to(tl.uint32)
    for byte in tl.static_range(1, SIZE):
        own = tl.load(section + at * SIZE + byte, mask=mask, other=0).to(tl.uint32)
        number |= own << (8 * byte)
    return number


@triton.jit
def write_number(section, at, number, mask, SIZE: tl.constexpr):
    """The reverse of `read_number`."""
    for byte in tl.static_range(SIZE):
        tl.store(section + at * SIZE + byte, ((number >> (8 * byte)) & 255).to(tl.uint8), mask=mask)
