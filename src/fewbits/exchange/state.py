"""What a rank saves of its compression: plain arrays, and a few words on what they belong to.

Nothing here can execute on reading. A rank's file is its own: memories differ from rank to rank,
and one rank's, loaded by all, would be wrong on all others.
"""

import json
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.errors import DisagreementError, MissingExtraError

State = Mapping[str, npt.NDArray[Any]]
_ABOUT = "fewbits"
_VERSION = 1
_DIGESTS = {
    "model": "parameters have other names or shapes",
    "plan": "some parameters have other operators",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Who saves or loads: a rank, its feedback, and digests of its model and its whole plan."""

    rank: int
    ranks: int
    feedback: str | None
    model: str
    plan: str
    configuration: str

    @property
    def file(self) -> str:
        """The name of this rank's file."""
        return f"rank-{self.rank}-of-{self.ranks}.safetensors"


def digest(lines: Iterable[str]) -> str:
    """128 bits that differ if the lines do."""
    return blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


def pack(place: Place, step: int, arrays: Mapping[str, npt.NDArray[Any]]) -> State:
    """The state of a rank."""
    about = {"version": _VERSION, "step": step, **asdict(place)}
    text = json.dumps(about | {"crc": _checksum(about, arrays)}).encode()
    return {_ABOUT: np.frombuffer(text, np.uint8).copy(), **arrays}


def unpack(
    saved: State | Sequence[State], place: Place, reshard: bool
) -> tuple[int, list[dict[str, npt.NDArray[Any]]]]:
    """The step, and the memories of every rank whose state was given.

    `DisagreementError` if the states belong elsewhere.
    """
    if not isinstance(saved, Mapping | Sequence):
        raise DisagreementError(f"a state is what state_dict() gave, got {type(saved).__name__}")
    states = [saved] if isinstance(saved, Mapping) else list(saved)
    if not states:
        raise DisagreementError("there is no state to load")
    abouts = [_about(state) for state in states]
    first = abouts[0]
    if reshard:
        _check_all(abouts)
        same: tuple[str, ...] = ("feedback", "model")
    elif first["ranks"] != place.ranks or len(states) != 1:
        raise DisagreementError(
            f"the state is of {first['ranks']} ranks, there are {place.ranks}: pass reshard=True "
            "with the states of all of them"
        )
    else:
        same = ("feedback", "model", "rank", "configuration", "plan")
    for what in same:
        if first[what] != getattr(place, what):
            own = f"{first[what]!r}, here {getattr(place, what)!r}"
            raise DisagreementError(f"the state is of another {what}: {_DIGESTS.get(what, own)}")
    return first["step"], [_arrays(state) for state in states]


def refuse_useless(memories: State, exact: Container[str]) -> None:
    """Refuse memories of parameters that travel exactly here: they would be lost in silence."""
    lost = sorted({key.partition("/")[2].rpartition("/")[0] for key in memories})
    lost = [name for name in lost if name in exact]
    if lost:
        raise DisagreementError(
            f"the state has memories of {', '.join(lost)}, which go exact here: use the policy "
            "of the run that saved them"
        )


def write(folder: str | Path, state: State) -> None:
    """Write a rank's file: a crash leaves the old one or the new one, never half of one."""
    about = _about(state)
    path = Path(folder) / f"rank-{about['rank']}-of-{about['ranks']}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as file:
        file.write(_safetensors().save(dict(state)))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def read(folder: str | Path, place: Place, reshard: bool) -> State | list[State]:
    """What the rank at `place` needs of a folder: its own file, or with `reshard` all of them."""
    found = sorted(Path(folder).glob("rank-*-of-*.safetensors"))
    if not reshard:
        if not (Path(folder) / place.file).exists():
            names = ", ".join(path.name for path in found) or "no such file"
            hint = ", pass reshard=True if their number has changed" if found else ""
            raise DisagreementError(f"{folder} has no {place.file}: there is {names}{hint}")
        return _read(Path(folder) / place.file)
    all_ranks = [f"rank-{rank}-of-{len(found)}.safetensors" for rank in range(len(found))]
    if not found or {path.name for path in found} != set(all_ranks):
        names = ", ".join(path.name for path in found) or "no file"
        raise DisagreementError(f"{folder} must hold every rank of one run, there is {names}")
    return [_read(Path(folder) / name) for name in all_ranks]


def _read(path: Path) -> State:
    package = _safetensors()
    try:
        state: State = package.load(path.read_bytes())
    except Exception as error:  # the package's own error has no public name in all versions
        raise DisagreementError(f"{path} is damaged: {error}") from error
    try:
        _about(state)
    except DisagreementError as error:
        raise DisagreementError(f"{path}: {error}") from error
    return state


def _safetensors() -> Any:
    try:
        import safetensors.numpy as package
    except ModuleNotFoundError as error:
        raise MissingExtraError.of("saving compression needs safetensors", "torch") from error
    return package


def _about(state: State) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(np.asarray(state[_ABOUT], np.uint8).tobytes())
        known = about["version"] == _VERSION
    except (KeyError, TypeError, ValueError) as error:
        raise DisagreementError(f"this is no state of compression: {error}") from error
    if not known:
        raise DisagreementError(f"the state has version {about['version']}: upgrade fewbits")
    if about.pop("crc", None) != _checksum(about, _arrays(state)):
        raise DisagreementError("the state was damaged: checksums differ")
    return about


def _checksum(about: Mapping[str, Any], arrays: State) -> int:
    """The file format has none, and a memory that has changed a little would go unnoticed."""
    crc = _native.crc32c(_bytes(json.dumps(about).encode()))
    for key, array in sorted(arrays.items()):
        crc = _native.crc32c(_bytes(f"{key} {array.dtype} {array.shape}".encode()), crc)
        crc = _native.crc32c(np.ascontiguousarray(array).reshape(-1).view(np.uint8), crc)
    return crc


def _bytes(text: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text, np.uint8)


def _arrays(state: State) -> dict[str, npt.NDArray[Any]]:
    return {key: np.asarray(array) for key, array in state.items() if key != _ABOUT}


def _check_all(abouts: Sequence[Mapping[str, Any]]) -> None:
    """Refuse states that are not those of all ranks of one run at one step, in order."""
    given = ", ".join(f"rank {a['rank']} of {a['ranks']} at step {a['step']}" for a in abouts)
    expected = [(rank, len(abouts), abouts[0]["step"]) for rank in range(len(abouts))]
    if [(about["rank"], about["ranks"], about["step"]) for about in abouts] != expected:
        raise DisagreementError(f"reshard needs the states of all ranks in order, got {given}")
