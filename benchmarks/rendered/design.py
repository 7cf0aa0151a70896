"""docs/architecture.md: the few measured numbers that reasons rest on."""

from benchmarks.rendered import speeds
from benchmarks.rendered.blocks import one, paragraph, results


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


ARCHITECTURE = {"checksum": checksum}
