"""Rotations, whole or fused with the rows behind them."""

from fewbits.backend import coders, parallel
from fewbits.backend.kernel import Kernel, Kind, Row, RowDirection, Written
from fewbits.backend.kinds import plain
from fewbits.backend.library import Bytes
from fewbits.backend.native_rows import NativeRow
from fewbits.backend.stage_functions import RotationArguments, rotation, run_rotated
from fewbits.backend.stage_functions import rotate as _rotate
from fewbits.reference.formats import Bits, Format
from fewbits.reference.rotation import COMMON
from fewbits.reference.tally import Tally, total
from fewbits.rng import Rng

PRIVATE = 1  # option of HADAMARD: signs of its own, whose key is sent


def rotate(
    bits: Bits,
    format: Format,
    block: int,
    signs: Rng,
    out: Bits,
    *,
    inverse: bool = False,
    threads: int = 1,
) -> Tally:
    """The randomised Walsh-Hadamard rotation of blocks, as `rotation.rotate` specifies it."""
    return _met(_rotated(bits, format, (block, signs), out, inverse, threads))


def split(stage: Kernel, bits: Bits, format: Format, signs: Rng, out: Bits, threads: int) -> Tally:
    """Rotate into `out`, which may be `bits`; counts what is not finite before, not after."""
    how = int(stage.numbers[0]), signs
    found = _rotated(bits, format, how, out, inverse=False, threads=threads)
    return Tally(_met(found).saturated, sum(own.given for own in found))


def _rotated(
    bits: Bits, format: Format, how: tuple[int, Rng], out: Bits, inverse: bool, threads: int
) -> list[RotationArguments]:
    block, signs = how

    def work(part: slice) -> RotationArguments:
        own = rotation(signs.key, block, part.start)
        _rotate(bits[part], format.code, own, out[part], inverse=inverse)
        return own

    return parallel.run(work, bits.size, threads)


def signs(stage: Kernel, rng: Rng, into: tuple[Bytes, ...]) -> Rng:
    """The stream of signs for encoding; a private one is sent."""
    if stage.option != PRIVATE:
        return COMMON
    coders.write_key(rng.key, into[0])
    return rng


def sent_signs(stage: Kernel, parts: tuple[Bytes, ...]) -> Rng:
    return coders.read_key(parts[0]) if stage.option == PRIVATE else COMMON


def is_fused(kernel: Kernel, format: Format) -> bool:
    """Whether native code rotates and encodes some blocks before the next ones."""
    if len(kernel.before) != 1 or kernel.before[0].kind is not Kind.HADAMARD:
        return False
    return kernel.kind is Kind.NATURAL or (
        kernel.kind is Kind.CAST and kernel.option == format.code
    )


def run(direction: RowDirection, row: Row) -> Written:
    """A row behind one rotation."""
    stage, rng = row.kernel.before[0], Rng(row.key)
    side = tuple(section.array() for section in row.sections[: stage.option])
    encodes = direction == "encode"
    own = signs(stage, rng.fork(0), side) if encodes else sent_signs(stage, side)
    found: list[RotationArguments] = []

    def call(chosen: RowDirection, native: NativeRow) -> tuple[int, ...]:
        how = rotation(own.key, int(stage.numbers[0]))
        results = run_rotated(chosen, native, how)
        found.append(how)
        return results

    inner = row._replace(
        kernel=row.kernel._replace(before=()),
        sections=row.sections[stage.option :],
        key=rng.fork(1).key if encodes else row.key,
    )
    last, sizes = plain.run(direction, inner, call)
    met = _met(found)
    if encodes:  # no value is to be counted twice
        given = sum(how.given for how in found)
        met = Tally(max(met.saturated, last.saturated), given, last.escaped)
    return Written(met, (*(section.size for section in side), *sizes))


def _met(found: list[RotationArguments]) -> Tally:
    return total([Tally(own.saturated, own.nonfinite) for own in found])
