"""docs/choosing.md, from `bits_error.py`, `trellis_bits.py` and others."""

from fewbits import presets
from fewbits.low_rank import low_rank
from fewbits_lab.prose import paragraph, span, table
from fewbits_lab.results import results
from fewbits_lab.studies.bench import text as bench_text
from fewbits_lab.studies.bits_error.text import bits, error, gap_to_bound
from fewbits_lab.studies.feedback import show as feedback_show
from fewbits_lab.studies.trellis_bits.run import SCALAR, TRELLIS
from fewbits_lab.studies.trellis_bits.text import error as at_equal_bits
from fewbits_lab.studies.trellis_bits.text import nu


def short_answer() -> str:
    """The table of advice."""
    coded, subtractive = bench_text.BENCH_CODED, "sparse-dithering:rounding=subtractive"
    pace = span(map(bench_text.times_memcpy, bench_text.calls(coded)), 2)
    tiny = [
        feedback_show.summaries(results("feedback"), data)["top-k"].bits or 0.0
        for data in ("digits", "mnist")
    ]
    whole = low_rank(presets.PRESETS[presets.LOW_RANK].operator)
    assert whole is not None
    excess = max(row["excess"] for row in results("spherical-speed")["rows"])
    rows = [
        ["to switch it on and not think", f"`{coded}`: unbiased with ω = 1/8 for every vector, {bits(coded):.1f} bits a Gaussian value, {pace} times the speed of memcpy"],
        ["the same on a faster link, where coding takes longer than it saves", f"`natural`: the same values, {bits('natural'):.0f} bits; on fast links `bfloat16`, or nothing. `fewbits plan` forecasts it, `auto` measures it and chooses"],
        ["two bits, several workers averaged, a slow link", f"`two-bit`, a preset: `trellis:rounding=subtractive`, exactly unbiased, error {at_equal_bits('gaussian', TRELLIS, 2):.2g} on a Gaussian vector and less on gradients; coding takes longer than with the rows around it"],
        ["about one bit, many workers averaged", f"`one-bit`, a preset: the same with the error {at_equal_bits('gaussian', TRELLIS, 1):.2g}"],
        ["other rates, or coding that is faster", f"`{subtractive}`: unbiased, error ν/3 whatever the vector, {bits(subtractive):.1f} bits at ν = 0.1; `{nu(SCALAR, 2)}` for 2 bits, `{nu(SCALAR, 4)}` for 4"],
        ["the same for vectors that are mostly zeros", "`sparse-dithering:rounding=stochastic`: zeros stay zeros and cost next to nothing"],
        ["the least error for the bits, with error feedback or one sender", f"`sparse-dithering:scale=least-squares`: within {gap_to_bound():.2f} bit of ½ log₂(1/error) on a Gaussian vector"],
        [f"{span(tiny, 2)} bits, with error feedback", "`tiny`, a preset of `fewbits.ddp`: [its evidence](feedback.md#which-operator-and-feedback-the-evidence)"],
        ["the fewest bytes of large matrices, under DDP on a slow link", f"`low-rank`, a preset of `fewbits.ddp`: {whole.rank} columns of factors, encoded. Biased, with a memory: α = 1, so no promise for one step, but what a step loses the next ones send. [What it needs](low-rank.md); measure it with `fewbits train --operator low-rank`, since no plan knows your matrices"],
        ["a sum that a device can add up in integers", "`natural`: signed powers of two"],
        ["the yardstick of the theory", f"`spherical`: within {excess:.2f} bits a block of what is possible, at the price of a search"],
        ["to be sure that nothing is lost", "`identity`, or do not compress: if your link moves 2 bytes a value in less time than a backward pass takes, `bfloat16` is enough"],
    ]  # fmt: skip
    return table("you want|take", rows)


def figure() -> str:
    """Bits against error, described for those who do not see the picture."""

    def point(spec: str) -> str:
        return f"{bits(spec):.2f} bits with error {error(spec):.2g}"

    return paragraph(
        "![Bits per coordinate against relative squared error, measured on a Gaussian vector of a million float32",
        "values. Curves of sparse dithering run along the lower bound, 4 to the power of minus b, and those of the trellis",
        "nearer to it up to six bits; with least squares sparse dithering",
        f"is at most {gap_to_bound():.2f} bits above it. Natural takes {point('natural')}, or",
        f"{bits('natural:coder=rans'):.2f} bits entropy coded; natural dithering {point('natural-dithering')};",
        f"spherical {point('spherical')}; sign {point('sign')}](_static/bits-error.svg)",
    )  # fmt: skip
