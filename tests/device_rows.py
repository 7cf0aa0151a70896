"""Rows for the device backend under Triton's interpreter, and the host's to compare them with."""

from typing import Any

import numpy as np
import torch

from fewbits import backend
from fewbits.backend import cpu
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Row, RowDirection, Written
from fewbits.reference.formats import Format
from fewbits.reference.natural import draws
from fewbits.rng import Rng

DEVICE = "interpreted"
VECTORS = "normal", "bits", "subnormal", "huge", "edges", "brink"


def device() -> Any:
    return backend.at(DEVICE)


def lent(array: Any) -> Buffer:
    """A copy of an array in the device's memory."""
    return device().of_tensor(torch.from_numpy(np.array(array).view(np.uint8).reshape(-1)))


def vector(kind: str, count: int, format: Format, rng: Rng) -> Any:
    """Bits of `count` values; those of `brink` are where a draw of `rng` decides."""
    words = np.random.default_rng(int.from_bytes(rng.key, "little"))
    sign = words.integers(0, 2, count, dtype=np.uint64) << np.uint64(
        format.exponent + format.mantissa
    )
    mantissa = words.integers(0, 1 << format.mantissa, count, dtype=np.uint64)
    if kind == "bits":
        return words.integers(0, 1 << (8 * format.itemsize), count, np.uint64).astype(format.bits)
    if kind == "subnormal":
        return (sign | mantissa).astype(format.bits)
    if kind == "huge":
        return (sign | mantissa | np.uint64(format.largest_power)).astype(format.bits)
    if kind == "edges":
        few = [0, 1, format.infinity, format.infinity - 1, format.infinity + 1, format.quiet_nan]
        few += [format.largest_power, format.largest_power + 1, 1 << format.mantissa]
        return (words.choice(np.array(few, np.uint64), count) | sign).astype(format.bits)
    codes = words.integers(1, format.top_code - 1, count, dtype=np.uint64)
    if kind == "brink":  # a mantissa that just carries, or just does not
        mantissa = (1 << format.mantissa) - draws(rng, 0, count, format).astype(np.int64)
        mantissa = np.clip(mantissa - words.integers(0, 2, count), 0, (1 << format.mantissa) - 1)
        return (sign | codes << np.uint64(format.mantissa) | mantissa.astype(np.uint64)).astype(
            format.bits
        )
    codes = format.bias - np.minimum(words.geometric(0.3, count), format.bias - 1)
    return (sign | codes.astype(np.uint64) << np.uint64(format.mantissa) | mantissa).astype(
        format.bits
    )


def same_bits(host: Any, there: Buffer) -> bool:
    return np.asarray(host).tobytes() == there.tobytes()


def same_totals(host: Any, there: Buffer) -> bool:
    """Equal bits, but for NaN, of which a device has one only."""
    found = np.frombuffer(there.tobytes(), np.uint32)
    quiet = np.where(np.isnan(host), np.uint32(0x7FC00000), host.view(np.uint32))
    return np.array_equal(found, quiet)


def run_both(
    direction: RowDirection,
    kernel: Kernel,
    format: Format,
    values: Any,
    sections: list[Any],
    key: bytes = bytes(16),
) -> tuple[Written, Buffer, list[Buffer]]:
    """Run a row on the host, in place, and on the device, where the tallies must be equal."""
    there, parts = lent(values), [lent(own) for own in sections]
    found = device().run_row(direction, Row(kernel, format, there, tuple(parts), key))
    own = Row(kernel, format, Buffer.of(values), tuple(map(Buffer.of, sections)), key)
    assert found == cpu.run_row(direction, own)
    return found, there, parts
