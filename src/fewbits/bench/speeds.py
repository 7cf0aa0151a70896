"""Bits and speeds of the operators on this machine, measured once and kept in a file."""

import json
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fewbits import codec, registry
from fewbits.backend import library
from fewbits.backend.parallel import available_threads
from fewbits.bench.machine import cpu_model
from fewbits.collectives.payload import UNIT
from fewbits.errors import FewbitsError, SpecError
from fewbits.theory.cost import Codec

_VALUES, _SEED = 4 * UNIT, 7
_PATIENCE = 0.25  # seconds for the repetitions of one measurement
_REPETITIONS = 7


def measured(spec: str) -> Codec:
    """The bits of one unit's frame, and the best speeds of compressing and decompressing four."""
    operator = registry.operator(spec)
    x = np.random.default_rng(_SEED).standard_normal(_VALUES, np.float32)
    bits = 8 * len(codec.compress(x[:UNIT], operator, seed=_SEED)) / UNIT
    room = bytearray(codec.largest_frame(x, operator))
    frame = bytes(codec.compress(x, operator, seed=_SEED, out=room))
    back = np.empty_like(x)
    encode = _best(lambda: codec.compress(x, operator, seed=_SEED, out=room))
    decode = _best(lambda: codec.decompress(frame, out=back))
    return Codec(bits, _VALUES / encode, _VALUES / decode)


def kept(
    specs: Sequence[str], *, again: bool = False, advance: Callable[[int], None] = lambda _: None
) -> dict[str, Codec]:
    """Speeds from the file; those that it lacks for this machine and version are measured."""
    found = _read(cache_path())
    wanted = [spec for spec in specs if again or spec not in found]
    for spec in wanted:
        found[spec] = measured(spec)
        advance(1)
    if wanted:
        _write(cache_path(), found)
    return {spec: found[spec] for spec in specs}


def given(path: Path, specs: Sequence[str]) -> dict[str, Codec]:
    """Speeds from a file of the user's; every spec must be in it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        if not isinstance(content, dict):
            raise TypeError(f"it holds a {type(content).__name__}")  # noqa: TRY301 - one message
        found = {registry.operator(spec).spec: _codec(own) for spec, own in content.items()}
    except (UnicodeDecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SpecError(
            f"{path} must map specs to bits_per_value, encode_values_per_second and "
            f"decode_values_per_second: {error}"
        ) from error
    missing = [spec for spec in specs if spec not in found]
    if missing:
        raise SpecError(f"{path} says nothing about {', '.join(missing)}")
    return {spec: found[spec] for spec in specs or found}


def cache_path() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fewbits" / "speeds.json"


def _machine() -> str:
    cores, build = available_threads(), zlib.crc32(library.core_file().read_bytes())
    named = f"fewbits {version('fewbits')} build {build:08x}"
    return f"{named}, {library.simd()}, {cores} threads, {cpu_model()}"


def _best(work: Callable[[], Any]) -> float:
    times: list[float] = []
    work()
    while len(times) < 2 or (sum(times) < _PATIENCE and len(times) < _REPETITIONS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)


def _read(path: Path) -> dict[str, Codec]:
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, FewbitsError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["machine"] == _machine():
            return {spec: _codec(own) for spec, own in content["speeds"].items()}
    return {}


def _write(path: Path, found: dict[str, Codec]) -> None:
    """Replace the file in one step; a folder that cannot be written to is no error."""
    content = {"machine": _machine(), "speeds": {s: asdict(own) for s, own in found.items()}}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(content, file)
        Path(file.name).replace(path)


def _refuse(constant: str) -> float:
    """Refuse infinity and NaN, which Python reads but JSON does not have."""
    raise ValueError(f"{constant} is no number of JSON")


def _codec(own: dict[str, Any]) -> Codec:
    names = ("bits_per_value", "encode_values_per_second", "decode_values_per_second")
    return Codec(*(float(own[name]) for name in names))
