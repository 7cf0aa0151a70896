"""README.md, from many results."""

from fewbits_lab.prose import bullets, one, paragraph, span
from fewbits_lab.record import Item
from fewbits_lab.results import results
from fewbits_lab.studies.accuracy import text as accuracy_text
from fewbits_lab.studies.bench import text as bench_text
from fewbits_lab.studies.bench_dtypes import text as dtypes_text
from fewbits_lab.studies.bits_error import text as bits_error_text
from fewbits_lab.studies.coding import text as coding_text
from fewbits_lab.studies.feedback import text as feedback_text
from fewbits_lab.studies.flower import text as flower_text
from fewbits_lab.studies.links import show as links_show
from fewbits_lab.studies.links import text as links_text

WORTH_IT = 1.1  # times as fast; a smaller gain is no reason for advice


SLOW = 1e8  # bits a second, of the link of the headline


def figure() -> str:
    """The picture, described for those who do not see it."""

    def point(spec: str) -> str:
        return f"{bits_error_text.bits(spec):.2f} bits with error {bits_error_text.error(spec):.2g}"

    return paragraph(
        "![Bits per coordinate against relative squared error, measured on a Gaussian vector of a million float32",
        "values. Curves of sparse dithering run along the lower bound, 4 to the power of minus b; with least squares it",
        f"is at most {bits_error_text.gap_to_bound():.2f} bits above it. Natural takes {point('natural')}, or",
        f"{bits_error_text.bits('natural:coder=rans'):.2f} bits entropy coded; natural dithering {point('natural-dithering')};",
        f"spherical {point('spherical')}; sign {point('sign')}](docs/_static/bits-error.svg)",
    )  # fmt: skip


def slow_link() -> Item:
    """The link of the headline."""
    return one(links_text.settings(), rate_bits_per_second=SLOW, ranks=2)


def within(ratio: dict[str, float]) -> str:
    """The 95 % interval as text."""
    return span((ratio["low"], ratio["high"]), 1)


def headline() -> str:
    """Three numbers."""
    slow = slow_link()
    ours = links_text.fastest(slow, links_show.LINK_OURS)
    own = links_show.row(slow, ours)
    plain, cast = own["times_plain"]["value"], own["times_cast"]["value"]
    gaps = feedback_text.differences(
        {data: accuracy_text.natural(data) for data in accuracy_text.DATA}
    )
    compress, decompress = map(bench_text.times_memcpy, bench_text.calls("natural"))
    return bullets(
        f"**{accuracy_text.fewer_bytes()} times fewer bytes** in training with `natural` in both directions; [its accuracy](#training)"
        f" minus that of plain DDP is {gaps}.",
        f"**{plain:.1f} times as fast a step** ({within(own['times_plain'])}, 95 %) as plain DDP on a link of 100 Mbit/s,"
        f" and {cast:.1f} times ({within(own['times_cast'])}) as fast as with the better cast (`{ours}`, ten million"
        f" parameters, two ranks); plain DDP catches up with `natural`"
        f" {links_text.crossing(2, 'none', 'natural')} ([when not to compress](docs/when-not.md)).",
        f"**{compress:.2f} and {decompress:.2f} times the speed of memcpy**: `compress` and `decompress` with"
        " `natural`, whole frames, one thread ([below](#speed)).",
    )


def federated() -> str:
    """TCP bytes of Flower."""
    packed = span((flower_text.fewer("natural", way) for way in ("up", "down")), 1)
    up, down = (f"{flower_text.fewer(bench_text.BENCH_CODED, way):.1f}" for way in ("up", "down"))
    return paragraph(
        "On a SuperLink with two SuperNodes and a model of a million `float32` weights, TCP bytes of a round are",
        f"{packed} times fewer in both directions, and with `{bench_text.BENCH_CODED}` {up} times fewer up and {down} times down;",
        "the first broadcast is exact. [docs/flower.md](docs/flower.md) has the details, `examples/flower` a whole app.",
    )


def operators_note() -> str:
    """How the columns were measured."""
    times = span(map(coding_text.smaller, coding_text.vectors("resnet", "gpt")), 1)
    found = results("bench-dtypes")
    copied = found["memcpy_gigabytes_per_second"]
    return paragraph(
        "ω: unbiased, E‖C(x) − x‖² ≤ ω‖x‖². α: biased, ‖C(x) − x‖² ≤ α‖x‖², and where rounding is random, as in",
        "`top-k|natural`, only in expectation. Both hold for every x of `float32` within",
        "the range that `fewbits.operator(spec).guarantee(d)` states. Parameters are the defaults where none are given; `top-k`",
        f"and `rand-k` keep a tenth. Bits are measured: 8 · `len(frame)` / d at d = {found['elements']:,}, header and checksum",
        "included, on a Gaussian vector. Speeds are those of whole calls on it with one thread, in bytes of the vector;",
        f"memcpy of it ran at {copied:.1f} GB/s. The last column has the slowest and the fastest of `bfloat16`, `float16` and",
        "`float64`, for as many values: [all of them](docs/speed.md). On gradients of a ResNet-18 and a small GPT",
        f"`coder=rans` is {times} times smaller than `float32`: [entropy coding](docs/coding.md) compares it with zstd and",
        "others.",
    )  # fmt: skip


def advice_on_out() -> str:
    """Which calls are faster when they are given their memory."""

    def gains(call: str) -> bool:
        given, fresh = (bench_text.times_memcpy(f"{call}({how}) natural") for how in ("out", "new"))
        return given > WORTH_IT * fresh

    calls = ("compress", "decompress")
    pays = " and ".join(f"`{call}`" for call in calls if gains(call))
    idle = " and ".join(f"`{call}`" for call in calls if not gains(call))
    said = [
        f"pass `out=` to {pays}" if pays else "",
        f"it does not make {idle} faster" if idle else "",
    ]
    return ", but ".join(filter(None, said))


def speed() -> str:
    """The codec beside memcpy and torch's cast."""
    kernel = [bench_text.times_memcpy(f"natural kernel {what}") for what in ("encode", "decode")]
    packed, coded = (
        [f"{bench_text.times_memcpy(job):.2f}" for job in bench_text.calls(spec)]
        for spec in ("natural", bench_text.BENCH_CODED)
    )
    fresh = [
        f"{bench_text.times_memcpy(f'{job}(new) natural'):.2f}"
        for job in ("compress", "decompress")
    ]
    two, four = (links_text.crossing(ranks, *links_show.LINK_OURS) for ranks in (2, 4))
    cpu = results("bench")["machine"]["cpu"]
    head = f"On two cores of an {cpu} with AVX2, one thread, warm buffers, against memcpy of the same vector in the same run:"
    items = bullets(
        f"torch's warm float16 cast runs at {bench_text.times_memcpy('torch float16 cast'):.2f} times;",
        f"the kernel of `natural` encodes at {kernel[0]:.2f} times the speed of memcpy, random bits included, and decodes"
        f" at {kernel[1]:.2f} times;",
        f"whole `compress` and `decompress` calls with it, frame and checksum included, run at {packed[0]} and"
        f" {packed[1]} times with `out=`, and at {fresh[0]} and {fresh[1]} times in fresh memory: {advice_on_out()};",
        dtypes_text.small_calls(),
        f"calls with `coder=rans` run at {coded[0]} and {coded[1]} times. On [measured links](docs/when-not.md)"
        f" `coder=packed`, the default, catches up with it {two} on two ranks and {four} on four.",
    )
    return f"{paragraph(head)}\n\n{items}"


def biased_are_faster() -> list[str]:
    """The biased methods that beat our best unbiased operator on the headline's link, if any."""
    slow = slow_link()
    ours = links_text.fastest(slow, links_show.LINK_OURS)
    biased = [
        name
        for name in (*links_text.LINK_POWERSGD, "tiny")
        if links_show.median(slow, name) < links_show.median(slow, ours)
    ]

    def figures(name: str) -> str:
        ratio = links_show.row(slow, name)["times_plain"]
        step = f"{1e3 * links_show.median(slow, name):.0f} ms"
        return f"`{name}` {ratio['value']:.1f} ({within(ratio)}; {step})"

    if not biased:
        return []
    text = (
        "**Slow links, if bias and a memory do no harm.** At 100 Mbit/s with two ranks, the link of the headline,"
        " methods that are biased and keep a memory are faster than our best unbiased operator. The speed of a step as a"
        f" multiple of plain DDP's (95 %; its median) is {', '.join(map(figures, biased))}; unbiased: {figures(ours)}."
        " `powersgd` is torch's. [All links](docs/when-not.md)."
    )
    return [text]


def when_not_to() -> str:
    """The cases against fewbits: faster with bias, 16 bits enough, far from the bound."""
    times = bits_error_text.error("natural") / bits_error_text.error("bfloat16")
    return bullets(
        *biased_are_faster(),
        "**16 bits are enough.** `bfloat16` has an error"
        f" {round(times, -3):,.0f} times smaller than `natural` at less than twice the bits.",
        "**The bound matters more than speed.** The figure shows that fixed-width codes are far from the lower"
        f" bound. `coder=rans` ({bits_error_text.bits(bench_text.BENCH_CODED):.2f} bits) closes most of that gap.",
    )
