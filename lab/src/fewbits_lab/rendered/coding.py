"""docs/coding.md, from `fewbits-lab coders` and `fewbits bench`."""

from fewbits_lab.prose import bullets, paragraph, span
from fewbits_lab.studies.bench import text as bench_text
from fewbits_lab.studies.coding.text import (
    CODING_OURS,
    CODING_SMALL,
    LARGE,
    ZSTD,
    coder,
    many_zeros,
    measured_together,
    smaller,
    vectors,
    versus,
    where_it_loses,
)
from fewbits_lab.studies.links import show as links_show
from fewbits_lab.studies.links import text as links_text


def in_short() -> str:
    """Size, speed, and where it loses."""
    every = measured_together()
    dense = [LARGE, *vectors("gpt", "resnet")]
    over = {name: 100 * (coder(name, CODING_OURS)["over_block_entropy"] - 1) for name in every}
    wins = sum(coder(name, CODING_OURS)["bytes"] < coder(name, ZSTD)["bytes"] for name in every)
    fastest = {
        job: [coder(name, CODING_OURS)[f"{job}_gigasymbols"] for name in dense]
        for job in ("encode", "decode")
    }
    compress, decompress = map(bench_text.times_memcpy, bench_text.calls(bench_text.BENCH_CODED))
    return bullets(
        f"**Size.** {span(map(smaller, vectors('resnet', 'gpt')), 1)} times smaller than `float32` on gradients of a"
        f" ResNet-18 and a small GPT, where `natural` with fixed widths is 32/9 times; {span(map(smaller, vectors('cnn')), 1)}"
        f" times on a CNN's. At most {max(over[name] for name in every if name != CODING_SMALL):.1f} % above the entropy of its"
        f" blocks on vectors of a block or more ({over[CODING_SMALL]:.1f} % at 10,000 values), and smaller than zstd 1 on"
        f" {wins} of {len(every)} vectors.",
        f"**Speed.** {span(fastest['encode'], 1)} G symbols a second in encoding and {span(fastest['decode'], 1)} in"
        f" decoding, one thread: {span(versus(dense, ZSTD, 'encode'), 1)} times and"
        f" {span(versus(dense, ZSTD, 'decode'), 1)} times zstd 1. Whole calls on 25 M values run at {compress:.2f}"
        f" (`compress`) and {decompress:.2f} (`decompress`) times memcpy of the vector.",
        many_zeros(),
        where_it_loses(),
    )  # fmt: skip


def when_to_use() -> str:
    """Bits saved against time spent, and where links have shown the line to be."""
    bits, nanoseconds = bench_text.coder_costs()
    two, four = (links_text.crossing(ranks, *links_show.LINK_OURS) for ranks in (2, 4))
    return paragraph(
        "**When to use it.** A coder pays when the bytes it saves take longer to send than it takes to run. Against",
        f"`coder=packed` it saves {bits:.1f} bits a value on a Gaussian vector and costs {nanoseconds:.1f} ns a value for",
        "one encoding and one decoding together on one core. On [measured links](when-not.md), where ranks share two",
        f"cores, `natural` with fixed widths catches up {two} on two ranks and {four} on four. For files and federated",
        "updates the coder always pays. `coder=packed` stays the default because it never costs more than the memory",
        "traffic; say `natural:coder=rans` on slower links. Two more reasons: a packed section has a length that is",
        "known beforehand, and it can be read anywhere in the middle.",
    )  # fmt: skip
