"""Makes the text of README and docs about `switch-speed`."""

from fewbits_lab.prose import one, paragraph, span, table
from fewbits_lab.record import Item
from fewbits_lab.results import results


def arithmetic_table() -> str:
    """Codes a second on one core."""
    found = {(r["workers"], r["simd"]): r for r in results("switch-speed")["arithmetic"]}
    rows = []
    for workers in sorted({workers for workers, _ in found}):
        fast, plain = found[workers, "avx2"], found[workers, "portable"]
        rows.append([
            str(workers), f"{fast['codes_per_second'] / 1e6:,.0f}",
            f"{100 * fast['ratio_to_memcpy']:.1f} %", f"{plain['codes_per_second'] / 1e6:,.0f}",
        ])  # fmt: skip
    return table("workers|AVX2|AVX2, of a memcpy's bytes a second|general registers", rows)


def loopback_table() -> str:
    """Megabytes a second and worker."""
    rows = [
        [str(r["workers"]), r["packet"], f"{r['codes_bytes_per_second_per_worker'] / 1e6:.0f}"]
        for r in results("switch-speed")["loopback"]
    ]
    return table("workers|packets|MB/s a worker", rows)


def where_time_goes() -> str:
    """Processor seconds of aggregator and workers, two workers, large and small packets."""
    large, small = [r for r in results("switch-speed")["last_loopback"] if r["workers"] == 2]
    speed = one(results("switch-speed")["arithmetic"], workers=2, simd="avx2")["codes_per_second"]
    adding = [r["bytes_received"] / speed for r in (large, small)]

    def used(row: Item) -> str:
        workers = row["worker_user_seconds"] + row["worker_system_seconds"]
        return (
            f"{row['aggregator_user_seconds']:.1f} s of its own time and"
            f" {row['aggregator_system_seconds']:.1f} s of the kernel's, the workers {workers:.1f} s"
        )

    return paragraph(
        f"For {large['bytes_received'] / 1e6:.0f} MB from two workers in packets of 8 KiB the",
        f"aggregator took {used(large)}. In packets of 1,400 bytes it took {used(small)}. Adding and rounding, at the",
        f"speeds above, are about {span(adding, 1)} s of it. The rest is copying and the kernel's work for each",
        "packet, which is more with small packets.",
    )  # fmt: skip


def cost_of_a_key() -> str:
    """Speed and processor time of exchanges with a key, against those without."""
    large, small = results("switch-speed")["sealed"]
    return paragraph(
        f"Over loopback with two workers an exchange with a key has {large['speed_ratio']:.2f} of the speed of one without",
        f"in packets of 8 KiB, and {small['speed_ratio']:.2f} in packets of 1,400 bytes (medians of {large['pairs']} and",
        f"{small['pairs']} pairs by turns). All programs share the processors, which are the limit there: the key takes",
        f"{large['processor_ratio']:.2f} and {small['processor_ratio']:.2f} times their time. On a slower network the",
        "time is there.",
    )  # fmt: skip
