"""docs/switch.md, from `switch_speed.py`, `switch_links.py` and `accuracy.py --scheme switch`."""

from typing import Any

from benchmarks.rendered.blocks import one, paragraph, results, span, table

PLAIN, SHARDED, SWITCH = "none", "natural", "natural@switch"
Row = dict[str, Any]


def arithmetic_table() -> str:
    """Codes a second on one core."""
    found = {(r["workers"], r["simd"]): r for r in results("switch-speed")["arithmetic"]}
    rows = []
    for workers in sorted({workers for workers, _ in found}):
        fast, plain = found[workers, "avx2"], found[workers, "scalar"]
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

    def used(row: Row) -> str:
        workers = row["worker_user_seconds"] + row["worker_system_seconds"]
        return (
            f"{row['aggregator_user_seconds']:.1f} s of its own time and"
            f" {row['aggregator_system_seconds']:.1f} s of the kernel's, the workers {workers:.1f} s"
        )

    return paragraph(
        f"Where the time goes: for {large['bytes_received'] / 1e6:.0f} MB from two workers in packets of 8 KiB the",
        f"aggregator took {used(large)}; in packets of 1,400 bytes it took {used(small)}. Adding and rounding, at the",
        f"speeds above, are about {span(adding, 1)} s of it. What is left is copying and the kernel's work for each",
        "packet, of which small packets have more.",
    )  # fmt: skip


def links_table() -> str:
    """Steps and bytes on links with loss."""
    rows = []
    for own in results("switch-links"):
        found = [own["contenders"][name] for name in (PLAIN, SHARDED, SWITCH)]
        rows.append([
            str(own["ranks"]), f"{100 * own['loss']:g} %",
            *(f"{1e3 * one['step_seconds']['median']:.0f} ms" for one in found),
            *(f"{one['sent_bytes_a_step'] / 1e6:.2f}" for one in found),
            f"{100 * found[2]['less_data_than_plain']:.1f} %",
        ])  # fmt: skip
    titles = "ranks|lost|plain|sharded|switch|plain MB|sharded MB|switch MB|switch saves"
    return table(titles, rows)


def links_bytes() -> str:
    """Bytes against the paper's system and against the formula."""
    saved = [
        100 * own["contenders"][SWITCH]["less_data_than_plain"]
        for own in results("switch-links")
        if own["ranks"] == 8
    ]
    return paragraph(
        "The paper's system sent 84 % less than plain training with 8 workers. Measured here with 8 ranks:",
        f"{span(saved, 1)} %. A ring sends 2(n − 1)/n times four bytes a value, seven bytes at n = 8, a switch one",
        "byte: 85.7 % less, of which headers of packets of 1,024 codes take some. Sharded natural compression sends",
        "9 bits 2(n − 1)/n times, 72 % less at any n.",
    )  # fmt: skip


def links_seconds() -> str:
    """Steps against plain and sharded, with the load under which they were taken."""

    def faster(name: str, other: str) -> str:
        pairs = [
            [own["contenders"][one]["step_seconds"]["median"] for one in (name, other)]
            for own in results("switch-links")
        ]
        return f"{sum(mine < theirs for mine, theirs in pairs)} of {len(pairs)}"

    loads = [own["load_average"] for own in results("switch-links")]
    return paragraph(
        f"In time the switch beat plain all-reduce in {faster(SWITCH, PLAIN)} settings, and sharded compression in",
        f"{faster(SWITCH, SHARDED)}: with 2 ranks both send the same, and with 8 ranks nine programs shared two cores,",
        f"which other programs used too (load averages {span(loads, 1)}). A lost packet costs its slot 20 ms or more,",
        "which shows at 1 %. Fewer bytes are what was measured here; a gain in time would need more cores than ranks.",
    )  # fmt: skip


def accuracy() -> str:
    """MNIST on the switch."""
    own = results("accuracy")["mnist, switch"]
    plain, switched = (
        ", ".join(f"{100 * one:.2f}" for one in own[key]) for key in ("plain", "compressed")
    )
    return paragraph(
        f"MNIST, {own['workers']} ranks, one epoch, {len(own['plain'])} seeds, the same start and order for each pair",
        f"(`benchmarks/accuracy.py --scheme switch`): plain {plain} %, on the switch {switched} %; the mean difference",
        f"is {own['mean_difference_points']:+.2f} points with a standard error of {own['standard_error_points']:.2f}.",
    )  # fmt: skip


BLOCKS = {
    "arithmetic": arithmetic_table,
    "loopback": loopback_table,
    "where-time-goes": where_time_goes,
    "links": links_table,
    "links-bytes": links_bytes,
    "links-seconds": links_seconds,
    "accuracy": accuracy,
}
