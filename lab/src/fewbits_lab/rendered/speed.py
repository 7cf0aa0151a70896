"""docs/speed.md, from `bench`, `bench-dtypes` and others."""

from fewbits_lab.prose import bullets, paragraph, span
from fewbits_lab.results import results
from fewbits_lab.studies.bench import text as bench_text
from fewbits_lab.studies.bench_dtypes import text as dtypes_text
from fewbits_lab.studies.coding import text as coding_text
from fewbits_lab.studies.links import show as links_show
from fewbits_lab.studies.links import text as links_text

WORTH_IT = 1.1  # times as fast; a smaller gain is no reason for advice


def operators_note() -> str:
    """How the columns were measured."""
    times = span(map(coding_text.smaller, coding_text.vectors("resnet", "gpt")), 1)
    found = results("bench-dtypes")
    copied = found["memcpy_gigabytes_per_second"]
    list_run = results("bench")
    here, there = (own["machine"]["simd"] for own in (found, list_run))
    return paragraph(
        "ω: unbiased, E‖C(x) − x‖² ≤ ω‖x‖². α: biased, ‖C(x) − x‖² ≤ α‖x‖², and where rounding is random, as in",
        "`top-k|natural`, only in expectation. Both hold for every x of `float32` within",
        "the range that `fewbits.operator(spec).guarantee(d)` states. Parameters are the defaults where none are given; `top-k`",
        f"and `rand-k` keep a tenth. Bits are measured: 8 · `len(frame)` / d at d = {found['elements']:,}, header and checksum",
        "included, on a Gaussian vector. Speeds are those of whole calls on it with one thread, in bytes of the vector;",
        f"memcpy of it ran at {copied:.1f} GB/s. The last column has the slowest and the fastest of `bfloat16`, `float16` and",
        "`float64`, for as many values: [all of them](#operators-and-dtypes). On gradients of a ResNet-18 and a small GPT",
        f"`coder=rans` is {times} times smaller than `float32`: [entropy coding](coding.md) compares it with zstd and",
        "others. The tables and the list above are two runs: these calls were made with the",
        f"{here} kernels, those of the list with {there} on {list_run['elements']:,} values. So `natural` has two speeds on this page;",
        "compare figures of one run only.",
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
        f"calls with `coder=rans` run at {coded[0]} and {coded[1]} times. On [measured links](when-not.md)"
        f" `coder=packed`, the default, catches up with it {two} on two ranks and {four} on four.",
    )
    return f"{paragraph(head)}\n\n{items}"
