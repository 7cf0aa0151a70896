"""Steps of sums over totals of float32, and all steps at once: the relay between two hops."""

from fewbits.backend.device.kernels.casts import (
    cast_bits,
    count_cast,
    get_section,
    is_nonfinite,
    put_section,
    widened,
)
from fewbits.backend.device.kernels.natural import lines, round_block
from fewbits.backend.device.kernels.powers import (
    canonical,
    float_of,
    get,
    is_rare,
    judge_block,
)
from fewbits.backend.device.kernels.rows import (
    left_of,
    own_number,
    reason,
    refuse,
    section_of,
    share,
    values_of,
)
from fewbits.backend.device.language import tl, triton
from fewbits.backend.library import BAD_SIGN
from fewbits.reference.formats import FLOAT32

NATURAL_TERMS, CAST_TERMS = 0, 1  # TERMS of a relay
TO_TOTALS, TO_NATURAL, TO_CAST = 0, 1, 2  # its ONWARD
_NATURAL_TERMS = tl.constexpr(NATURAL_TERMS)
_TO_TOTALS, _TO_NATURAL = tl.constexpr(TO_TOTALS), tl.constexpr(TO_NATURAL)
_FLOAT32, _BAD_SIGN = tl.constexpr(FLOAT32.code), reason(BAD_SIGN)


@triton.jit
def divided(total, rows, row, EXACT: tl.constexpr):
    """A total divided by the number of a row; EXACT: that is the reciprocal of a power of two."""
    divisor = own_number(rows, row, 0).to(tl.int32).to(tl.float32, bitcast=True)
    if EXACT:
        return total * divisor
    else:
        return tl.div_rn(total, tl.broadcast_to(divisor, total.shape))


@triton.jit
def step_totals(
    work,
    rows,
    keys,
    tally,
    CLEAR: tl.constexpr,
    EXACT: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    TAILS: tl.constexpr,
):
    """Clear totals, or divide them."""
    row, block = share(work)
    start = block.to(tl.int64) * BLOCK
    left = left_of(rows, row, start, BLOCK, TAILS)
    totals = values_of(rows, row, tl.uint32, ALIGNED) + start
    place = tl.arange(0, BLOCK)
    mask = place < left if TAILS else None
    if CLEAR:
        tl.store(totals + place, tl.zeros((BLOCK,), tl.uint32), mask=mask)
    else:
        total = tl.load(totals + place, mask=mask).to(tl.float32, bitcast=True)
        tl.store(totals + place, canonical(divided(total, rows, row, EXACT)), mask=mask)


# ---- the relay ----


@triton.jit
def term_block(
    rows,
    row,
    start,
    left,
    TERMS: tl.constexpr,
    EXPONENT: tl.constexpr,
    FROM: tl.constexpr,
    TO: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    MASKED: tl.constexpr,
):
    """A term's numbers, and which of them are rare; for `judge_term` what was read too."""
    place, line, column = lines(BLOCK)
    if TERMS == _NATURAL_TERMS:
        exponents = section_of(rows, row, 0, tl.uint8, ALIGNED) + start // 8 * EXPONENT
        signs = section_of(rows, row, 1, tl.uint8, ALIGNED) + start // 8
        code, sign, unused = get(exponents, signs, place, line, column, left, EXPONENT, MASKED)
        rare = is_rare(code, sign, EXPONENT) | unused
        return float_of(code, sign, EXPONENT), rare, code, sign, unused
    else:
        bits = get_section(rows, row, start, place, left, FROM, ALIGNED, MASKED)
        result, saturated = cast_bits(bits, FROM, TO)
        rare = saturated | is_nonfinite(bits, FROM)
        term = widened(result, TO).to(tl.float32, bitcast=True)
        return term, rare, bits, saturated.to(tl.uint32), left < 0


@triton.jit
def judge_terms(
    rows,
    tally,
    first,
    terms,
    start,
    left,
    TERMS: tl.constexpr,
    EXPONENT: tl.constexpr,
    FROM: tl.constexpr,
    TO: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Read the terms once more, to count and refuse what is rare in each."""
    place, _line, _column = lines(BLOCK)
    for number in range(terms):
        row = first + 1 + number
        _term, _rare, code, sign, unused = term_block(
            rows, row, start, left, TERMS, EXPONENT, FROM, TO, BLOCK, ALIGNED, MASKED
        )  # fmt: skip
        if TERMS == _NATURAL_TERMS:
            judge_block(tally, row, code, sign, place, left, unused, EXPONENT, MASKED)
        else:
            count_cast(tally, row, is_nonfinite(code, FROM), sign != 0, place < left, True)


@triton.jit
def pass_on(
    mean,
    rows,
    keys,
    tally,
    first,
    row,
    start,
    left,
    ONWARD: tl.constexpr,
    NEAREST: tl.constexpr,
    TARGET: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    MASKED: tl.constexpr,
    RARE: tl.constexpr,
):
    """Encode a mean into the sections of `row`, or store it at the values of `first`."""
    place, _line, _column = lines(BLOCK)
    if ONWARD == _TO_NATURAL:
        exponents = section_of(rows, row, 0, tl.uint8, ALIGNED) + start
        signs = section_of(rows, row, 1, tl.uint8, ALIGNED) + start // 8
        bits = mean.to(tl.uint32, bitcast=True)
        round_block(
            bits, exponents, signs, tally, keys, row, start, left,
            8, 23, NEAREST, BLOCK, MASKED, RARE,
        )  # fmt: skip
    else:
        mask = place < left if MASKED else None
        bits = canonical(mean)
        if ONWARD == _TO_TOTALS:
            totals = values_of(rows, first, tl.uint32, ALIGNED) + start
            tl.store(totals + place, bits, mask=mask)
        else:
            result, saturated = cast_bits(bits, _FLOAT32, TARGET)
            put_section(rows, row, start, place, left, result, TARGET, ALIGNED, MASKED)
            nonfinite = is_nonfinite(bits, _FLOAT32)
            count_cast(tally, row, nonfinite, saturated, place < left, RARE)


@triton.jit
def relay_block(
    rows,
    keys,
    tally,
    first,
    terms,
    start,
    left,
    TERMS: tl.constexpr,
    EXPONENT: tl.constexpr,
    FROM: tl.constexpr,
    TO: tl.constexpr,
    ONWARD: tl.constexpr,
    NEAREST: tl.constexpr,
    TARGET: tl.constexpr,
    EXACT: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    MASKED: tl.constexpr,
    RARE: tl.constexpr,
):
    total = tl.zeros((BLOCK // 8, 8), tl.float32)
    rare = tl.zeros((BLOCK // 8, 8), tl.int1)
    for number in range(terms):
        term, own, _code, _sign, _unused = term_block(
            rows, first + 1 + number, start, left, TERMS, EXPONENT, FROM, TO, BLOCK, ALIGNED, MASKED
        )  # fmt: skip
        total += term
        rare |= own
    is_any = tl.max(tl.max(rare.to(tl.int32), axis=1), axis=0) != 0
    mean = divided(total, rows, first + 1 + terms, EXACT)
    pass_on(
        mean, rows, keys, tally, first, first + 2 + terms, start, left, ONWARD, NEAREST, TARGET,
        BLOCK, ALIGNED, MASKED, RARE,
    )  # fmt: skip
    if RARE:  # when no total is in a register any more
        if is_any:
            judge_terms(
                rows, tally, first, terms, start, left, TERMS, EXPONENT, FROM, TO, BLOCK,
                ALIGNED, MASKED,
            )  # fmt: skip
    else:
        refuse(tally, first, _BAD_SIGN, is_any)


@triton.jit
def relay(
    work,
    rows,
    keys,
    tally,
    terms,
    TERMS: tl.constexpr,
    EXPONENT: tl.constexpr,
    FROM: tl.constexpr,
    TO: tl.constexpr,
    ONWARD: tl.constexpr,
    NEAREST: tl.constexpr,
    TARGET: tl.constexpr,
    EXACT: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    TAILS: tl.constexpr,
    RARE: tl.constexpr,
):
    """Sum terms in the order of their rows, divide, and encode again or store.

    The rows lie one behind the other: the sum's, one for each term, the division's and, if it is
    encoded, the encoding's. Totals never leave the registers.
    """
    first, block = share(work)
    start = block.to(tl.int64) * BLOCK
    left = left_of(rows, first, start, BLOCK, TAILS)
    relay_block(
        rows, keys, tally, first, terms, start, left, TERMS, EXPONENT, FROM, TO, ONWARD,
        NEAREST, TARGET, EXACT, BLOCK, ALIGNED, TAILS, RARE,
    )  # fmt: skip
