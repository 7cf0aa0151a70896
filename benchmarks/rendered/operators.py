"""README's table of operators: words from here, bits and speeds from results.

A test demands a row for every operator and stage of the registry.
"""

from benchmarks.rendered import choosing, speeds
from benchmarks.rendered.blocks import code, table

# What a row shows: the spec that was measured, what it does, what it guarantees.
ROWS = {
    "identity": ("identity", "every value as it is", "ω = 0"),
    "float16": ("float16", "rounds to IEEE binary16", "α = 2⁻²²"),
    "bfloat16": ("bfloat16", "rounds to bfloat16", "α = 2⁻¹⁶"),
    "natural": (
        "natural",
        "rounds to a power of two, at random; `natural:rounding=nearest` to the nearer one",
        "ω = 1/8; nearest: α = 1/9",
    ),
    "natural:coder=rans": (
        "natural:coder=rans", "the same values, exponents entropy coded", "the same",
    ),
    "natural-dithering": (
        "natural-dithering",
        "rounds to the largest magnitude times one of 7 powers of two, or 0; `p`, `levels`, `block` choose others",
        "ω = 1/8 + 2z²/9 up to z = 9/4, then z − 1; z = √d · 2^(1−levels)",
    ),
    "standard-dithering": (
        "standard-dithering",
        "rounds to multiples of a seventh of the largest magnitude; `qsgd`, `terngrad`, `ternary` are presets",
        "ω = w²/4 up to w = 2, then w − 1; w = √d / levels",
    ),
    "sparse-dithering": (
        "sparse-dithering",
        "rounds to multiples of a step in proportion to the norm, `nu=0.1` sets it; at random with `rounding=stochastic`, with a dither that the decoder redraws with `subtractive`",
        "α = ν; stochastic: ω = ν; subtractive: ω = ν/3",
    ),
    "spherical": (
        "spherical",
        "replaces blocks of 16 by the first random direction that is near enough; `alpha=`, `block=`; `scale=unbiased`",
        "α = 1/2 in every block; unbiased: ω = 0.81",
    ),
    "sign": ("sign", "signs times the mean magnitude", "α = 1 − 1/d"),
    "top-k": (
        "top-k:fraction=0.01|natural",
        "a stage, `top-k:fraction=0.01\\|natural`: keeps the largest magnitudes and their places",
        "α = 1 − (k/d)(1 − ω)",
    ),
    "rand-k": (
        "rand-k:fraction=0.01|natural",
        "a stage, `rand-k:fraction=0.01\\|natural`: keeps random values, times d/k; sends a key and no places",
        "ω = (d/k)(1 + ω₂) − 1",
    ),
    "hadamard": (
        "hadamard|natural",
        "a stage, `hadamard\\|natural`: turns blocks at random, so that all values are about as large",
        "the operator's",
    ),
}  # fmt: skip


def speed(job: str) -> str:
    """A job's megabytes a second, and its speed as a multiple of memcpy."""
    times = speeds.times_memcpy(job)
    return f"{speeds.megabytes(job):,.0f} ({times:{'.2f' if times > 0.1 else '.2g'}})"


def operators_table() -> str:
    """A row for each."""
    rows = []
    for name, (spec, what, guarantee) in ROWS.items():
        cells = [f"{choosing.bits(spec):.2f}", *(speed(job) for job in speeds.calls(spec))]
        rows.append([code(name), what, guarantee, *cells])
    titles = "operator|what it does|guarantee|bits per value|compress MB/s (× memcpy)|decompress"
    return table(titles, rows)
