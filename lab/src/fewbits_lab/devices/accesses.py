"""Instructions that touch memory, choose, or pack registers."""

import numpy as np

from fewbits_lab.devices.lanes import BlockGroup, OperandSource, Step, address, several, source
from fewbits_lab.devices.memory import Lanes
from fewbits_lab.devices.ptx import Instruction, PtxError, PtxProgram
from fewbits_lab.devices.types import dtype

_ATOMIC = {
    "add": np.add, "or": np.bitwise_or, "and": np.bitwise_and, "xor": np.bitwise_xor,
    "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def load(program: PtxProgram, own: Instruction) -> Step:
    """A load of a parameter, of global or of shared memory, one value or a vector of them."""
    if own.words[1] == "param":
        return _parameter(program, own)
    targets, where = several(own.operands[0]), address(program, own.operands[1])
    size, kind, shared = _access(own, len(targets))

    def step(group: BlockGroup) -> None:
        mask, at = _checked(group, own, where, size * len(targets))
        for place, target in enumerate(targets):
            here = at + np.uint64(place * size)
            if shared:
                found = group.shared.load(*_threads(group, mask), here, size)
            else:
                found = group.memory.load(here, size)
            values = np.zeros(group.size, found.dtype)
            values[mask] = found
            group.write(target, values.view(f"i{size}") if kind == "s" else values, mask)

    return step


def store(program: PtxProgram, own: Instruction) -> Step:
    """A store to global or shared memory."""
    texts, where = several(own.operands[1]), address(program, own.operands[0])
    size, _, shared = _access(own, len(texts))
    reads = [source(program, text, f"b{8 * size}") for text in texts]

    def step(group: BlockGroup) -> None:
        mask, at = _checked(group, own, where, size * len(texts))
        for place, read in enumerate(reads):
            here, values = at + np.uint64(place * size), read(group)[mask]
            if shared:
                group.shared.store(*_threads(group, mask), here, values, size)
            else:
                group.memory.store(here, values, size)

    return step


def _access(own: Instruction, items: int) -> tuple[int, str, bool]:
    words = own.words
    shared = any(word.startswith("shared") for word in words)
    if not shared and "global" not in words:
        raise PtxError("neither global nor shared")
    stated = next((int(word[1:]) for word in words if word in ("v2", "v4", "v8")), 1)
    if stated != items:
        raise PtxError("another number of items")
    return dtype(words[-1]).itemsize, words[-1][0], shared


def _checked(
    group: BlockGroup, own: Instruction, where: OperandSource, size: int
) -> tuple[Lanes, Lanes]:
    """Who works, and where."""
    mask = group.mask(own)
    at = where(group)[mask]
    if (at % np.uint64(size)).any():
        raise PtxError(f"misaligned by {int((at % np.uint64(size)).max())} of {size} bytes")
    return mask, at


def _threads(group: BlockGroup, mask: Lanes) -> tuple[Lanes, Lanes]:
    return group.read("block")[mask], group.read("%warpid")[mask].astype(np.int16)


def _parameter(program: PtxProgram, own: Instruction) -> Step:
    name = own.operands[1].strip("[] ")
    if name not in program.params:
        raise PtxError(f"no parameter {name}")
    place, bits = program.params[name]
    size = dtype(own.words[-1]).itemsize
    if 8 * size != bits:
        raise PtxError(f"{name} has {bits} bits")

    def step(group: BlockGroup) -> None:
        value = group.arguments[place] & ((1 << bits) - 1)
        group.write(own.operands[0], np.full(group.size, value, f"u{size}"), group.mask(own))

    return step


def atomic(program: PtxProgram, own: Instruction) -> Step:
    """Atomics on global memory: one lane after the other."""
    words = own.words
    returns = words[0] == "atom"
    kind = words[-1]
    name = next((word for word in words if word in (*_ATOMIC, "exch", "cas")), None)
    if name is None or "global" not in words:
        raise PtxError("not known")
    target, place, *terms = own.operands if returns else ("", *own.operands)
    where = address(program, place)
    reads = [source(program, text, kind) for text in terms]
    size = dtype(kind).itemsize

    def step(group: BlockGroup) -> None:
        mask, at = _checked(group, own, where, size)
        given = [read(group)[mask] for read in reads]
        old = np.zeros(at.size, f"u{size}")
        for lane in range(at.size):
            here = at[lane : lane + 1]
            old[lane : lane + 1] = group.memory.load(here, size)
            before = old[lane : lane + 1].view(dtype(kind))
            new = _updated(name, before, [own[lane : lane + 1] for own in given])
            group.memory.store(here, new.view(f"u{size}"), size)
        if returns and target != "_":
            values = np.zeros(group.size, f"u{size}")
            values[mask] = old
            group.write(target, values, mask)

    return step


def _updated(name: str, old: Lanes, terms: list[Lanes]) -> Lanes:
    if name == "exch":
        return terms[0]
    if name == "cas":
        return np.where(old == terms[0], terms[1], old)
    return np.asarray(_ATOMIC[name](old, terms[0]), old.dtype)


def barrier(_: PtxProgram, own: Instruction) -> Step:
    """All threads of a block wait for each other; one of a warp alone orders nothing here."""
    if own.words[1] == "warp":
        return lambda _: None
    if own.words[-1] not in ("sync", "aligned") or own.operands[:1] != ("0",):
        raise PtxError("not known")

    def step(group: BlockGroup) -> None:
        if not group.mask(own).all():
            raise PtxError("some threads miss the barrier")
        group.shared.barrier()

    return step


def select(program: PtxProgram, own: Instruction) -> Step:
    """One of two values, by a predicate."""
    target, *texts, chosen = own.operands
    kind = f"b{8 * dtype(own.words[-1]).itemsize}"
    reads = [source(program, text, kind) for text in texts]
    choose = source(program, chosen, "pred")

    def step(group: BlockGroup) -> None:
        first, second = (read(group) for read in reads)
        group.write(target, np.where(choose(group), first, second), group.mask(own))

    return step


def packed(program: PtxProgram, own: Instruction) -> Step:
    """A move between one register and several that are its parts, the lowest first."""
    target, given = own.operands
    bits = 8 * dtype(own.words[-1]).itemsize
    if "{" in target:
        targets, read = several(target), source(program, given, f"b{bits}")
        width = bits // len(targets)

        def cut(group: BlockGroup) -> None:
            parts = np.ascontiguousarray(read(group)).view(f"u{width // 8}")
            for place, name in enumerate(targets):
                if name != "_":
                    group.write(name, parts[place :: len(targets)], group.mask(own))

        return cut
    texts = several(given)
    width = bits // len(texts)
    reads = [source(program, text, f"b{width}") for text in texts]

    def joined(group: BlockGroup) -> None:
        parts = np.stack([read(group) for read in reads], axis=1)
        group.write(
            target, np.ascontiguousarray(parts).view(f"u{bits // 8}")[:, 0], group.mask(own)
        )

    return joined
