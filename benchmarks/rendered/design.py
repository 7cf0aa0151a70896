"""docs/theory.md and docs/architecture.md: the few measured numbers that reasons rest on."""

from benchmarks.rendered import speeds, when_not
from benchmarks.rendered.blocks import one, paragraph, results


def left_out() -> str:
    """What the planner's model leaves out, with the most that contention has cost."""
    crowded = [own for own in when_not.settings() if own["ranks"] == 4]
    most = max(
        1 / ratio
        for own in crowded
        for name, ratio in when_not.planned(own).items()
        if name != "tiny"
    )
    return paragraph(
        "What the model leaves out: contention for processor and memory (four ranks on two cores took up to",
        f"{most:.1f} times the modelled step), lost packets, the exchange of headers, bits that vary from gradient to",
        "gradient (on real gradients entropy coded operators send fewer than on Gaussian vectors), and that ω is a",
        "worst case over vectors. `fewbits train` measures.",
    )


def checksum() -> str:
    """Why the checksum is a pass of its own."""
    found = results("bench")
    frame = one(found["sizes"], spec="natural")["frame_bytes"]
    share = frame / (4 * found["elements"]) / speeds.times_memcpy("crc32c")
    return paragraph(
        f"**The checksum is a pass of its own.** The CRC-32C of a natural frame takes {share:.2f} times as long as a",
        "memcpy of its vector. Fused with encoding it would save reading the frame once more, and not the computing.",
        "Apart, it is simpler, and a decoder can refuse before it writes.",
    )


THEORY = {"left-out": left_out}
ARCHITECTURE = {"checksum": checksum}
