"""Makes the text of README and docs about `coding`."""

from fewbits_lab.prose import one, span, table
from fewbits_lab.record import Item
from fewbits_lab.results import results
from fewbits_lab.studies.bench import text as bench_text

CODING_OURS, ZSTD = "fewbits rans", "zstd 1"
LARGE, CODING_SMALL = "gaussian 4,000,000", "gaussian 10,000"
SHOWN = (CODING_OURS, ZSTD, "zstd 3", "lz4", "bitshuffle + lz4 5", "constriction")
TIMED = (*SHOWN[:-1], "bitshuffle + zstd 1", SHOWN[-1])
_MODELS = {"cnn": "CNN", "gpt": "GPT", "resnet": "ResNet-18"}


def coder(vector: str, name: str) -> Item:
    """One coder on one vector."""
    return one(results("coding")["coders"], input=vector, coder=name)


def vectors(*models: str) -> list[str]:
    """The recorded gradients of these models."""
    names = [own["name"] for own in results("coding")["inputs"]]
    return [name for name in names if name.partition("-")[0] in models]


def measured_together() -> list[str]:
    """The vectors of the first run; those with many zeros were measured apart from them."""
    names = [own["name"] for own in results("coding")["inputs"]]
    return [name for name in names if not name.startswith("sparse")]


def vectors_with_zeros() -> list[str]:
    """The sparse ones."""
    names = [own["name"] for own in results("coding")["inputs"]]
    return [name for name in names if name.startswith("sparse")]


def smaller(vector: str) -> float:
    """How many times smaller than float32 the whole frame is."""
    rows = results("coding")["operators"]
    return float(
        one(rows, input=vector, spec=bench_text.BENCH_CODED, job="compress", threads=1)["ratio"]
    )


def title(vector: str) -> str:
    """A vector as a cell."""
    if vector.startswith("gaussian"):
        count = vector.split()[1]
        return f"Gaussian, {count.replace(',000,000', ' M')}"
    if vector.startswith("sparse"):
        _, count, percent = vector.split()
        return f"{percent.removesuffix('%')} % zeros, {count.replace(',000,000', ' M')}"
    model, _, step = vector.partition("-step")
    return f"{_MODELS[model]}, step {int(step)}"


def versus(names: list[str], other: str, job: str) -> list[float]:
    """How many times as fast as another coder."""
    key = f"{job}_gigasymbols"
    return [coder(name, CODING_OURS)[key] / coder(name, other)[key] for name in names]


def where_it_loses() -> str:
    """Vectors with zeros, coders that decode faster, small vectors."""
    every = measured_together()
    sparse = vectors("cnn")
    zeros = [100 * own["zeros"] for own in results("coding")["inputs"] if own["name"] in sparse]
    quick = ("lz4", "bitshuffle + lz4 5")
    ahead = [
        name
        for name in every
        if all(
            coder(name, other)["decode_gigasymbols"]
            > coder(name, CODING_OURS)["decode_gigasymbols"]
            for other in quick
        )
    ]
    sizes = [
        coder(name, own)["bytes"] / coder(name, CODING_OURS)["bytes"]
        for name in every
        for own in quick
    ]
    slower = [
        coder(CODING_SMALL, CODING_OURS)[key] / coder(LARGE, CODING_OURS)[key]
        for key in ("encode_gigasymbols", "decode_gigasymbols")
    ]
    return (
        "**Where it loses.** On vectors with some zeros it tries two ways of writing a block, and decoding takes two"
        f" passes: on the CNN's gradients ({span(zeros, 0)} % zeros) encoding is {span(versus(sparse, ZSTD, 'encode'), 1)}"
        f" times and decoding {span(versus(sparse, ZSTD, 'decode'), 2)} times as fast as zstd 1. lz4 and bitshuffle with"
        f" lz4 both decode faster on {len(ahead)} of {len(every)} vectors, at {span(sizes, 1)} times the size. Vectors of"
        f" some thousand values use fewer lanes: {span(slower, 2)} of the speed at 10,000."
    )  # fmt: skip


def many_zeros() -> str:
    """Size and speed on sparse vectors."""
    said = []
    for name in vectors_with_zeros():
        own, other = coder(name, CODING_OURS), coder(name, ZSTD)
        encode, decode = (versus([name], ZSTD, job)[0] for job in ("encode", "decode"))
        said.append(
            f"with {title(name).partition(',')[0]} it is {100 * (own['over_block_entropy'] - 1):.1f} % above the entropy of its"
            f" blocks and {other['bytes'] / own['bytes']:.2f} times smaller than zstd 1, {encode:.1f} times as fast in"
            f" encoding and {decode:.1f} times in decoding"
        )  # fmt: skip
    return f"**Many zeros.** On Gaussian vectors with zeros in places that are drawn: {'; '.join(said)}."


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
