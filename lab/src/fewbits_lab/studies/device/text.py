"""Makes the text of docs about `device`."""

from collections import Counter
from typing import Any

from fewbits_lab.devices.budget import REGISTERS, SLACK
from fewbits_lab.devices.pieces import FORMAT_NAMES, PTX_TARGETS, missing_pieces
from fewbits_lab.prose import bullets, paragraph, table
from fewbits_lab.results import results
from fewbits_lab.studies.device import show
from fewbits_lab.tables import markdown

# Bytes that a value moves through a device's memory, and of memories whose makers state their speed.
_MOVED = {"encode": 5.125, "decode": 5.125}
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
    targets: dict[tuple[str, str], list[str]] = {}
    for name, own in _found()["compiled"].items():
        target, _, specs = name.partition(" ")
        values = "all" if len(own["formats"]) == len(FORMAT_NAMES) else ", ".join(own["formats"])
        targets.setdefault((specs, values), []).append(target)
    return "; ".join(
        f"{' and '.join(f'`{spec}`' for spec in specs.split())} with {values} values for {', '.join(own)}"
        for (specs, values), own in targets.items()
    )


def _without(part: str, target: str) -> str:
    missing = missing_pieces(part, target, _found()[part])
    return f" (without {', '.join(f'`{spec}`' for spec in missing)})" if missing else ""


def runs() -> int:
    """Runs under the interpreter that gave the CPU's bytes."""
    return int(_found()["interpreted"]["verify"]["vectors"]["runs"])


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
        " that sends a flipped byte.",
        f"**Compiled.** {len(rows)} kernels and targets, a kernel counted once for each variant: {scope()}. {sum(bool(row['faults']) for row in rows)}"
        f" break the lint: approximate division, flush to zero, fused products, generic addresses. On {len(hot)} hot paths"
        f" there are {sum(row['hot']['spills'] for row in hot)} spills and at most {max(row['hot']['registers'] for row in hot)} registers;"
        f" with the code of rare values beside them, {len(wide)} kernels take more than {REGISTERS}, and"
        f" {sum(bool(row['spills']) for row in rows)} kernels spill there or at unaligned addresses."
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
