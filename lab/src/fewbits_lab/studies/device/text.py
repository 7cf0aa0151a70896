"""Makes the text of docs about `device`."""

from collections import Counter
from typing import Any

from fewbits_lab.devices.budget import REGISTERS, SLACK
from fewbits_lab.devices.pieces import FORMAT_NAMES, MESSAGES, PTX_TARGETS, missing_pieces
from fewbits_lab.prose import bullets, paragraph, table
from fewbits_lab.results import results
from fewbits_lab.studies.device import show
from fewbits_lab.tables import markdown

# Bytes that a value moves through a device's memory, and of memories whose makers state their speed.
_MOVED = {"encode": 5.125, "decode": 5.125}
LENGTHS = 40
_SUITE_NAMES = {"ddp": "DDP", "fsdp and localsgd": "FSDP2 and LocalSGD"}
_MEMORIES = {"2 TB/s": 2.0e12, "3.35 TB/s": 3.35e12}


def _found() -> Any:
    return results("device")


def launches() -> Counter[str]:
    """Launches of compiled PTX that gave the CPU's bytes, by kernel."""
    total: Counter[str] = Counter()
    for own in _found()["emulated"].values():
        total.update(own["launches"])
    return total


def executed() -> str:
    """The launches of each target, and the operators that one of them lacks."""
    found = _found()["emulated"]
    told = []
    for target in PTX_TARGETS:
        pieces = [own["launches"] for name, own in found.items() if name.split()[0] == target]
        count = sum(sum(own.values()) for own in pieces)
        told.append(f"{count:,} for {target}{_without('emulated', target)}")
    return ", ".join(told)


def scope() -> str:
    """The operators whose kernels were compiled, with which values and for which targets."""
    widest: dict[tuple[str, str], list[str]] = {}  # formats, by operator and target
    for name, own in _found()["compiled"].items():
        target, *specs = name.split()
        for spec in specs:
            widest[spec, target] = max(widest.get((spec, target), []), own["formats"], key=len)
    values: dict[tuple[str, str], list[str]] = {}
    for (spec, target), formats in sorted(widest.items()):
        told = "all" if len(formats) == len(FORMAT_NAMES) else ", ".join(formats)
        what = "checksums and headers" if spec == MESSAGES else f"`{spec}`"
        values.setdefault((what, "" if spec == MESSAGES else f" with {told} values"), []).append(
            target
        )
    together: dict[tuple[str, str], list[str]] = {}
    for (what, told), targets in values.items():
        together.setdefault((told, ", ".join(targets)), []).append(what)
    return "; ".join(
        f"{', '.join(specs)}{told} for {targets}" for (told, targets), specs in together.items()
    )


def _without(part: str, target: str) -> str:
    missing = missing_pieces(part, target, _found()[part])
    return f" (without {', '.join(f'`{spec}`' for spec in missing)})" if missing else ""


def runs() -> int:
    """Runs under the interpreter that gave the CPU's bytes."""
    return int(_found()["interpreted"]["verify"]["vectors"]["runs"])


def frames() -> str:
    """Frames of a device's tensors that were compared with the CPU's."""
    found = _found()["tested"].get("frames", {}).get("frames", {})
    if not found:
        return ""
    pairs = [own.rpartition(" ") for own in found]
    specs, formats = ({own[place] for own in pairs} for place in (0, 2))
    return (
        f" {sum(found.values()):,} frames of {len(specs)} operators and {len(formats)} types of values, each with"
        f" {LENGTHS} lengths, are the CPU's byte for byte, and are read back alike."
    )


def trained() -> str:
    """Tests of whole runs that have passed, and others."""
    found = {name: own for name, own in _found()["tested"].items() if name != "frames"}
    held = sum(sum(own["passed"].values()) for own in found.values())
    others = sum(len(own["others"]) for own in found.values())
    return (
        f"{held} tests of whole runs as streams have passed"
        + (f", {others} have not" if others else "")
        + f" ({' and '.join(_SUITE_NAMES[name] for name in found)})"
    )


def claim() -> str:
    """What may be said."""
    names = [
        name
        for name in show.SHOWN_TARGETS
        if any(row["target"] == name for row in show.rows(_found()))
    ]
    targets = ", ".join(names[:-1]) + f" and {names[-1]}"
    return paragraph(
        f"*Compiled for {targets}; bytes equal to the CPU's in {runs():,} runs under the interpreter and"
        f" {launches().total():,} launches of compiled PTX; never run on a device; no speed is claimed.*"
    )


def evidence() -> str:
    """The numbers behind it."""
    found = _found()
    rows = show.rows(found)
    hot = [row for row in rows if "hot" in row]
    over = [row for row in hot if row["over_budget"]]
    wide = [row for row in hot if row["registers"] > REGISTERS]
    mutants = found["mutants"].values()
    made, seen = (sum(own[name] for own in mutants) for name in ("made", "seen"))
    same = sum(len(own["equivalent"]) for own in mutants)
    told = "; ".join(
        f"`{row['kernel']}` for {row['target']}: {', '.join(row['over_budget'])}" for row in over
    )
    verify = found["interpreted"]["verify"]
    damaged = verify["damage"]["flipped"]
    return bullets(
        f"**Interpreted.** {runs():,} runs of {verify['vectors']['cases']} cases: encode, decode, accumulate, the owner's"
        f" relay, damaged payloads; aligned and not; ordinary values, any bits, subnormal ones, the largest, edges, and values"
        f" that the very draw they meet rounds up or just not. {damaged} flipped bytes in messages were found and named."
        f" {verify['ranks']['ranks']} ranks over gloo have the parameters of the CPU's backend after every step, and name the rank"
        f" that sends a flipped byte.{frames()}",
        f"**Trained.** {trained()}, with the CPU's kernels and with a device's under the interpreter: after 20 steps on 2 and 3 ranks the"
        " parameters are those of the way through the host, also with `tiny`, with ranks of both kinds in one job, and with NaN at step 5"
        " under each policy; a killed rank is a typed error on all others, and what a device cannot do is refused.",
        f"**Compiled.** {len(rows)} kernels and targets, a kernel counted once for each variant: {scope()}. {sum(bool(row['faults']) for row in rows)}"
        f" break the lint: approximate division, flush to zero, fused products, generic addresses. On {len(hot)} hot paths"
        f" there are {sum(row['hot']['spills'] for row in hot)} spills and at most {max(row['hot']['registers'] for row in hot)} registers;"
        f" with the code of rare values beside them, more than {REGISTERS} are taken by {len(wide)}, and"
        f" of all kernels {sum(bool(row['spills']) for row in rows)} spill there or at unaligned addresses."
        + (f" Over the budget, {SLACK} times the instructions of the first prototypes: {told}." if over else
           f" All keep to {SLACK} times the instructions of the first prototypes."),
        f"**Executed.** {launches().total():,} launches of the compiled PTX, {executed()}, by a machine in NumPy that refuses accesses that are misaligned,"
        " stray or raced, approximate instructions, and threads of a block that part. Selection (`top-k`) is not among them:"
        " its counting lets threads part.",
        f"**Mutants.** Of {made} single changes to an operand or opcode of this PTX {same} are proved to be the same program: the"
        f" assembler makes the same machine code, or every thread gets the same number. Of the other {made - same} the launches show"
        f" {seen} ({100 * seen / (made - same):.0f} %); those that they do not show are listed in the result file.",
    )  # fmt: skip


def hot_table() -> str:
    """Registers and instructions of the hot paths."""
    return markdown(show.hot_paths(_found()))


def memory() -> str:
    """Bytes per parameter."""
    own = _found()["interpreted"]["verify"]["ranks"]["memory"]
    natural, tiny = (own[spec]["message_bytes_per_parameter"] for spec in ("natural", "tiny"))
    return paragraph(
        f"Messages of two ranks take {natural:.1f} bytes a parameter with `natural` and {tiny:.1f} with `tiny`, counted in a run"
        " under the interpreter: what leaves and what comes, in both hops, for all buckets."
    )


def roofline() -> str:
    """What memory allows, if nothing else limits."""
    rows = [
        [name, f"{moved:.3f}", *(f"{speed / moved / 1e9:.0f}" for speed in _MEMORIES.values())]
        for name, moved in _MOVED.items()
    ]
    titles = "|".join(f"estimate: billion values a second at {name}" for name in _MEMORIES)
    return table(f"kernel of `natural`|bytes a value|{titles}", rows)
