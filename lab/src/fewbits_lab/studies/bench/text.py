"""Makes the text of README and docs about `bench`."""

from typing import Any

from fewbits_lab.prose import one, paragraph
from fewbits_lab.results import results


def checksum() -> str:
    """Why the checksum is a pass of its own."""
    found = results("bench")
    frame = one(found["sizes"], spec="natural")["frame_bytes"]
    share = frame / (4 * found["elements"]) / times_memcpy("crc32c")
    return paragraph(
        f"**The checksum is a pass of its own.** The CRC-32C of a natural frame takes {share:.2f} times as long as a",
        "memcpy of its vector. Fused with encoding it would save reading the frame once more, and not the computing.",
        "Apart, it is simpler, and a decoder can refuse before it writes.",
    )


BENCH_CODED, _PACKED = "natural:coder=rans", "natural"


def row(job: str, threads: int = 1) -> dict[str, Any]:
    """One job of the benchmark."""
    return one(results("bench")["rows"], name=job, threads=threads)


def times_memcpy(job: str) -> float:
    """The speed of a job as a multiple of a copy of the same vector."""
    return float(row(job)["memcpy_ratio_median"])


def megabytes(job: str) -> float:
    """Megabytes of the float32 vector in a second."""
    return 1000 * float(row(job)["gigabytes_per_second"])


def calls(spec: str) -> tuple[str, str]:
    """The names of the whole calls with an operator."""
    return f"compress(out) {spec}", f"decompress(out) {spec}"


def coder_costs() -> tuple[float, float]:
    """Bits that `coder=rans` saves and nanoseconds that it takes, for a value."""
    found = results("bench")
    bits = {own["spec"]: own["bits_per_value"] for own in found["sizes"]}
    seconds = {
        spec: sum(row(job)["cpu_median"] for job in calls(spec)) for spec in (BENCH_CODED, _PACKED)
    }
    extra = (seconds[BENCH_CODED] - seconds[_PACKED]) / found["elements"]
    return bits[_PACKED] - bits[BENCH_CODED], 1e9 * extra
