"""docs/coding.md, from `fewbits bench coding` and `fewbits bench`."""

from typing import Any

from benchmarks.rendered import speeds, when_not
from benchmarks.rendered.blocks import bullets, one, paragraph, results, span, table

OURS, ZSTD = "fewbits rans", "zstd 1"
LARGE, SMALL = "gaussian 4,000,000", "gaussian 10,000"
SHOWN = (OURS, ZSTD, "zstd 3", "lz4", "bitshuffle + lz4 5", "constriction")
TIMED = (*SHOWN[:-1], "bitshuffle + zstd 1", SHOWN[-1])
MODELS = {"cnn": "CNN", "gpt": "GPT", "resnet": "ResNet-18"}
Row = dict[str, Any]


def coder(vector: str, name: str) -> Row:
    """One coder on one vector."""
    return one(results("coding")["coders"], input=vector, coder=name)


def vectors(*models: str) -> list[str]:
    """The recorded gradients of these models."""
    names = [own["name"] for own in results("coding")["inputs"]]
    return [name for name in names if name.partition("-")[0] in models]


def smaller(vector: str) -> float:
    """How many times smaller than float32 the whole frame is."""
    rows = results("coding")["operators"]
    return float(one(rows, input=vector, spec=speeds.CODED, job="compress", threads=1)["ratio"])


def title(vector: str) -> str:
    """A vector as a cell."""
    if vector.startswith("gaussian"):
        count = vector.split()[1]
        return f"Gaussian, {count.replace(',000,000', ' M')}"
    model, _, step = vector.partition("-step")
    return f"{MODELS[model]}, step {int(step)}"


def versus(names: list[str], other: str, job: str) -> list[float]:
    """How many times as fast as another coder."""
    key = f"{job}_gigasymbols"
    return [coder(name, OURS)[key] / coder(name, other)[key] for name in names]


def in_short() -> str:
    """Size, speed, and where it loses."""
    every = [own["name"] for own in results("coding")["inputs"]]
    dense = [LARGE, *vectors("gpt", "resnet")]
    over = {name: 100 * (coder(name, OURS)["over_block_entropy"] - 1) for name in every}
    wins = sum(coder(name, OURS)["bytes"] < coder(name, ZSTD)["bytes"] for name in every)
    fastest = {
        job: [coder(name, OURS)[f"{job}_gigasymbols"] for name in dense]
        for job in ("encode", "decode")
    }
    compress, decompress = map(speeds.times_memcpy, speeds.calls(speeds.CODED))
    return bullets(
        f"**Size.** {span(map(smaller, vectors('resnet', 'gpt')), 1)} times smaller than `float32` on gradients of a"
        f" ResNet-18 and a small GPT, where `natural` with fixed widths is 32/9 times; {span(map(smaller, vectors('cnn')), 1)}"
        f" times on a CNN's. At most {max(over[name] for name in every if name != SMALL):.1f} % above the entropy of its"
        f" blocks on vectors of a block or more ({over[SMALL]:.1f} % at 10,000 values), and smaller than zstd 1 on"
        f" {wins} of {len(every)} vectors.",
        f"**Speed.** {span(fastest['encode'], 1)} G symbols a second in encoding and {span(fastest['decode'], 1)} in"
        f" decoding, one thread: {span(versus(dense, ZSTD, 'encode'), 1)} times and"
        f" {span(versus(dense, ZSTD, 'decode'), 1)} times zstd 1. Whole calls on 25 M values run at {compress:.2f}"
        f" (`compress`) and {decompress:.2f} (`decompress`) times memcpy of the vector.",
        where_it_loses(),
    )  # fmt: skip


def where_it_loses() -> str:
    """Vectors with zeros, coders that decode faster, small vectors."""
    every = [own["name"] for own in results("coding")["inputs"]]
    sparse = vectors("cnn")
    zeros = [100 * own["zeros"] for own in results("coding")["inputs"] if own["name"] in sparse]
    quick = ("lz4", "bitshuffle + lz4 5")
    ahead = [
        name
        for name in every
        if all(
            coder(name, other)["decode_gigasymbols"] > coder(name, OURS)["decode_gigasymbols"]
            for other in quick
        )
    ]
    sizes = [
        coder(name, own)["bytes"] / coder(name, OURS)["bytes"] for name in every for own in quick
    ]
    slower = [
        coder(SMALL, OURS)[key] / coder(LARGE, OURS)[key]
        for key in ("encode_gigasymbols", "decode_gigasymbols")
    ]
    return (
        "**Where it loses.** On vectors with many zeros it tries two ways of writing a block, and decoding takes two"
        f" passes: on the CNN's gradients ({span(zeros, 0)} % zeros) encoding is {span(versus(sparse, ZSTD, 'encode'), 1)}"
        f" times and decoding {span(versus(sparse, ZSTD, 'decode'), 2)} times as fast as zstd 1. lz4 and bitshuffle with"
        f" lz4 both decode faster on {len(ahead)} of {len(every)} vectors, at {span(sizes, 1)} times the size. Vectors of"
        f" some thousand values use fewer lanes: {span(slower, 2)} of the speed at 10,000."
    )  # fmt: skip


def when_to_use() -> str:
    """Bits saved against time spent, and where links have shown the line to be."""
    bits, nanoseconds = speeds.coder_costs()
    two, four = (when_not.crossing(ranks, *when_not.OURS) for ranks in (2, 4))
    return paragraph(
        "**When to use it.** A coder pays when the bytes it saves take longer to send than it takes to run. Against",
        f"`coder=packed` it saves {bits:.1f} bits a value on a Gaussian vector and costs {nanoseconds:.1f} ns a value for",
        "one encoding and one decoding together on one core. On [measured links](when-not.md), where ranks share two",
        f"cores, `natural` with fixed widths catches up {two} on two ranks and {four} on four. For files and federated",
        "updates the coder always pays. `coder=packed` stays the default because it never costs more than the memory",
        "traffic; say `natural:coder=rans` on slower links. Two more reasons: a packed section has a length that is",
        "known beforehand, and it can be read anywhere in the middle.",
    )  # fmt: skip


def sizes_table() -> str:
    """Bits per exponent; the fewest in bold."""
    rows = []
    for own in results("coding")["inputs"]:
        bits = [f"{coder(own['name'], name)['bits_per_symbol']:.2f}" for name in SHOWN]
        least = min(bits, key=float)
        cells = [f"**{text}**" if text == least else text for text in bits]
        rows.append(
            [
                title(own["name"]),
                f"{own['block_entropy']:.2f}",
                *cells,
                f"{smaller(own['name']):.2f}",
            ]
        )
    return table("|".join(["vector", "entropy by blocks", *map(plainly, SHOWN), "× smaller"]), rows)


def plainly(name: str) -> str:
    """A coder without its level where there is one level only."""
    return name.removesuffix(" 5").removesuffix(" 1") if "bitshuffle" in name else name


def speeds_table() -> str:
    """Symbols a second on the large Gaussian vector."""
    rows = [
        [
            plainly(name),
            *(f"{coder(LARGE, name)[f'{job}_gigasymbols']:.2f}" for job in ("encode", "decode")),
        ]
        for name in TIMED
    ]
    return table("coder, Gaussian of 4 M, one thread|encode Gsym/s|decode Gsym/s", rows)


BLOCKS = {
    "in-short": in_short,
    "when-to-use": when_to_use,
    "sizes": sizes_table,
    "speeds": speeds_table,
}
