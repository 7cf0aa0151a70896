"""Headers of boxes on the device: filled, sealed and judged where they lie.

A header is 64 words, of which the last is the CRC of those before. The host says where its fields
are; `crcs` are those of payloads without their constants `zeros`, and are cleared when they are
read. The caller's memory comes as addresses.
"""

from fewbits.backend.device.kernels.checksum import polynomial_product, xor_of
from fewbits.backend.device.kernels.rows import pointer
from fewbits.backend.device.language import tl, triton


@triton.jit
def word_of(words, lane, NUMBER: tl.constexpr):
    """One of a header's words."""
    return tl.sum(tl.where(lane == NUMBER, words, 0), axis=0)


@triton.jit
def long_of(words, lane, NUMBER: tl.constexpr):
    """A number of two words of a header."""
    low = word_of(words, lane, NUMBER).to(tl.uint32, bitcast=True).to(tl.int64)
    return low | (word_of(words, lane, NUMBER + 1).to(tl.int64) << 32)


@triton.jit
def header_crc(words, lane, moves, ZEROS: tl.constexpr):
    """The CRC of a header's first 63 words."""
    body = tl.where(lane == 63, 0, words).to(tl.uint32, bitcast=True)
    own = polynomial_product(body, tl.load(moves + lane).to(tl.uint32, bitcast=True))
    return xor_of(own) ^ ZEROS


@triton.jit
def payload_crc(crcs, zeros, box):
    """The CRC of a payload, whose place is cleared for the next one."""
    found = tl.load(crcs + box)
    tl.store(crcs + box, 0)
    return found ^ tl.load(zeros + box)


@triton.jit
def fill_headers(headers, places):
    """Write templates to the boxes' headers."""
    box = tl.program_id(0)
    lane = tl.arange(0, 64)
    head = pointer(tl.load(places + box), tl.int32, True)
    tl.store(head + lane, tl.load(headers + box * 64 + lane))


@triton.jit
def any_set(address, count, BLOCK: tl.constexpr):
    """Whether one of some numbers of 32 bits is not zero."""
    numbers = pointer(address, tl.int32, False)
    lane = tl.arange(0, BLOCK)
    found = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, count, BLOCK):
        own = tl.load(numbers + start + lane, mask=start + lane < count, other=0)
        found |= (own != 0).to(tl.int32)
    return tl.max(found, axis=0) != 0


@triton.jit
def seal_headers(
    places,
    crcs,
    zeros,
    moves,
    counts,
    lines,
    verdict,
    verdicts,
    STATUS: tl.constexpr,
    FAILED: tl.constexpr,
    CRC: tl.constexpr,
    NONFINITE: tl.constexpr,
    SATURATED: tl.constexpr,
    ZEROS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write what only the device knows into each header: counts, failure, checksums."""
    box = tl.program_id(0)
    lane = tl.arange(0, 64)
    head = pointer(tl.load(places + box), tl.int32, True)
    words = tl.load(head + lane)
    count = pointer(counts, tl.int64, False)
    saturated, nonfinite, bad = tl.load(count), tl.load(count + 1), tl.load(count + 2)
    for line in range(1, lines):
        saturated += tl.load(count + 4 * line)
        nonfinite += tl.load(count + 4 * line + 1)
        bad += tl.load(count + 4 * line + 2)
    failed = (bad != 0) | any_set(verdict, verdicts, BLOCK)
    is_fine = (word_of(words, lane, STATUS).to(tl.uint32, bitcast=True) >> 16) == 0
    words = tl.where((lane == STATUS) & failed & is_fine, words | (FAILED << 16), words)
    words = tl.where(lane == CRC, payload_crc(crcs, zeros, box), words)
    words = tl.where(lane == NONFINITE, nonfinite.to(tl.int32), words)
    words = tl.where(lane == NONFINITE + 1, (nonfinite >> 32).to(tl.int32), words)
    words = tl.where(lane == SATURATED, saturated.to(tl.int32), words)
    words = tl.where(lane == SATURATED + 1, (saturated >> 32).to(tl.int32), words)
    own = header_crc(words, lane, moves, ZEROS)
    tl.store(head + lane, tl.where(lane == 63, own, words))


@triton.jit
def judge_headers(
    places,
    crcs,
    zeros,
    moves,
    expected,
    compared,
    verdict,
    met,
    STATUS: tl.constexpr,
    CRC: tl.constexpr,
    NONFINITE: tl.constexpr,
    SATURATED: tl.constexpr,
    ZEROS: tl.constexpr,
    DAMAGED: tl.constexpr,
    OTHER: tl.constexpr,
    PAYLOAD: tl.constexpr,
    REPORTED: tl.constexpr,
):
    """Compare each header with the one that was expected, in the bits of `compared`."""
    box = tl.program_id(0)
    lane = tl.arange(0, 64)
    words = tl.load(pointer(tl.load(places + box), tl.int32, True) + lane)
    payload = payload_crc(crcs, zeros, box)
    said = pointer(verdict, tl.int32, False) + box
    if word_of(words, lane, 63) != header_crc(words, lane, moves, ZEROS):
        tl.atomic_or(said, DAMAGED)
    else:
        differs = (words ^ tl.load(expected + box * 64 + lane)) & tl.load(compared + lane)
        is_other = tl.max((differs != 0).to(tl.int32), axis=0)
        reports = ((word_of(words, lane, STATUS).to(tl.uint32, bitcast=True) >> 16) != 0).to(
            tl.int32
        )
        hurt = (word_of(words, lane, CRC) != payload).to(tl.int32)
        wrong = is_other * OTHER + reports * REPORTED + hurt * PAYLOAD
        if wrong != 0:
            tl.atomic_or(said, wrong)
        found = pointer(met, tl.int64, False)
        tl.atomic_add(found, long_of(words, lane, NONFINITE))
        tl.atomic_add(found + 1, long_of(words, lane, SATURATED))


@triton.jit
def is_well(verdict, verdicts, met, MET: tl.constexpr, BLOCK: tl.constexpr):
    """Whether the step has ended well: no verdict and, if that matters, all finite."""
    well = any_set(verdict, verdicts, BLOCK) == 0
    if MET:
        well = well & (tl.load(pointer(met, tl.int64, False)) == 0)
    return well


@triton.jit
def replace_block(to, source, at, left, COMMIT: tl.constexpr, MASKED: tl.constexpr):
    """Copy bytes, or clear them."""
    mask = at < left if MASKED else None
    if COMMIT:
        tl.store(to + at, tl.load(source + at, mask=mask), mask=mask)
    else:
        tl.store(to + at, (at * 0).to(tl.uint8), mask=mask)


@triton.jit
def replace_if(
    now,
    then,
    size,
    verdict,
    verdicts,
    met,
    COMMIT: tl.constexpr,
    MET: tl.constexpr,
    ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
    VERDICTS: tl.constexpr,
):
    """After a good step `now` becomes `then`; or, without COMMIT, zeros after a bad one."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    well = is_well(verdict, verdicts, met, MET, VERDICTS)
    if well == COMMIT:
        to = pointer(now, tl.uint8, ALIGNED) + start
        source = pointer(then, tl.uint8, ALIGNED) + start
        at = tl.arange(0, BLOCK)
        if start + BLOCK <= size:
            replace_block(to, source, at, BLOCK, COMMIT, False)
        else:
            replace_block(to, source, at, size - start, COMMIT, True)
