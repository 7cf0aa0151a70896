"""What several pages say of the codec's speed, from `fewbits bench --json`."""

from typing import Any

from benchmarks.rendered.blocks import one, results

CODED, PACKED = "natural:coder=rans", "natural"


def row(job: str, threads: int = 1) -> dict[str, Any]:
    """One job of the benchmark."""
    return one(results("bench")["rows"], name=job, threads=threads)


def times_memcpy(job: str) -> float:
    """Its speed as a multiple of a copy of the same vector."""
    return float(row(job)["memcpy_ratio_median"])


def megabytes(job: str) -> float:
    """Of the float32 vector, in a second."""
    return 1000 * float(row(job)["gigabytes_per_second"])


def calls(spec: str) -> tuple[str, str]:
    """The names of the whole calls with an operator."""
    return f"compress(out) {spec}", f"decompress(out) {spec}"


def coder_costs() -> tuple[float, float]:
    """What `coder=rans` saves and takes: bits, and nanoseconds of a call each way, for a value."""
    found = results("bench")
    bits = {own["spec"]: own["bits_per_value"] for own in found["sizes"]}
    seconds = {spec: sum(row(job)["cpu_median"] for job in calls(spec)) for spec in (CODED, PACKED)}
    extra = (seconds[CODED] - seconds[PACKED]) / found["elements"]
    return bits[PACKED] - bits[CODED], 1e9 * extra
