"""A rank's saved state: plain arrays, and the rank and run that they belong to.

Reading a state executes nothing. Each rank has its own file, because memories differ from rank to
rank.
"""

import json
import os
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend import crc32c
from fewbits.errors import DisagreementError, MissingExtraError
from fewbits.session.memories import ShapesByKey

SavedState = Mapping[str, npt.NDArray[Any]]
_ABOUT = "fewbits"
VERSIONS = (1, 2)  # of the words in which a state tells of its run; the last one is written
MAX_STEP_COUNT = 2**63
_NODES = "nodes="
NO_RESHARD_OF_NODES = (
    "memories of a run with across= belong to its nodes and are not shared out anew: resume with "
    "the same nodes, or without the memories"
)
_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("version", "step", "rank", "ranks"), (int,)),
    **dict.fromkeys(("model", "plan", "configuration"), (str,)),
    "feedback": (str, type(None)),
}
_DIGESTS = {
    "model": "parameters have other names or shapes",
    "plan": "some parameters have other operators",
}


@dataclass(frozen=True, slots=True)
class StateOrigin:
    """The rank that saves or loads, its feedback, and digests of its model and configuration."""

    rank: int
    ranks: int
    feedback: str | None
    model: str
    plan: str
    configuration: str


def _file(rank: int, ranks: int) -> str:
    return f"rank-{rank}-of-{ranks}.safetensors"


def digest(lines: Iterable[str]) -> str:
    """128 bits that differ if the lines do."""
    return blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class RankState:
    """What a rank has saved; `absent` are memories that it did not have yet, if it says so.

    `is_alike` means that the run that saved it was configured like this one, not as in
    `configuration`.
    """

    rank: int
    ranks: int
    absent: frozenset[str] | None
    is_alike: bool
    arrays: dict[str, npt.NDArray[Any]]
    configuration: str


def pack(
    origin: StateOrigin, step: int, arrays: SavedState, absent: Iterable[str] = ()
) -> SavedState:
    """The state of a rank."""
    about = {"version": VERSIONS[-1], "step": step, **asdict(origin), "absent": sorted(absent)}
    text = json.dumps(about | {"crc": _checksum(about, arrays)}).encode()
    return {_ABOUT: np.frombuffer(text, np.uint8).copy(), **arrays}


def unpack(
    saved: SavedState | Sequence[SavedState],
    origins: Callable[[int], StateOrigin],
    reshard: bool,
) -> tuple[int, list[RankState]]:
    """The step, and what every rank has saved whose state was given.

    `origins` tells of this rank in the words of a version. `DisagreementError` if the states belong
    elsewhere.
    """
    if not isinstance(saved, Mapping | Sequence):
        raise DisagreementError(f"a state is what state_dict() gave, got {type(saved).__name__}")
    states = [saved] if isinstance(saved, Mapping) else list(saved)
    if not states:
        raise DisagreementError("there is no state to load")
    abouts = [_about(state) for state in states]
    first = abouts[0]
    origin = origins(first["version"])
    if reshard:
        _check_all(abouts)
        if any(f" {_NODES}" in about["configuration"] for about in abouts):
            raise DisagreementError(NO_RESHARD_OF_NODES)
        same: tuple[str, ...] = ("feedback", "model")
    elif first["ranks"] != origin.ranks or len(states) != 1:
        raise DisagreementError(
            f"the state is of {first['ranks']} ranks, there are {origin.ranks}: pass reshard=True "
            "with the states of all of them"
        )
    else:
        same = ("feedback", "model", "rank", "configuration", "plan")
    for what in same:
        if first[what] != getattr(origin, what):
            own = f"{first[what]!r}, here {getattr(origin, what)!r}"
            if what == "configuration":
                own = _differences(first[what], origin.configuration)
            raise DisagreementError(f"the state is of another {what}: {_DIGESTS.get(what, own)}")
    return first["step"], [
        RankState(
            about["rank"],
            about["ranks"],
            None if about["version"] == 1 else frozenset(about["absent"]),
            about["plan"] == origins(about["version"]).plan,
            _arrays(state),
            about["configuration"],
        )
        for about, state in zip(abouts, states, strict=True)
    ]


def _differences(there: str, here: str) -> str:
    """What two configurations say otherwise, and what to do."""
    saved, own = (re.split(r" (?=[\w.]+=)", text) for text in (there, here))
    first, second = (
        ", ".join(each for each in texts if each not in others) or "nothing more"
        for texts, others in ((saved, own), (own, saved))
    )
    return f"it has {first}, here is {second}; go on with what it has"


def refuse_wrong(memories: SavedState, possible: ShapesByKey, needed: Iterable[str]) -> None:
    """Refuse memories that are not finite, of other shapes than is `possible`, or not all `needed`.

    Nothing is said to be possible for a model whose parameters are not known yet.
    """
    for key, array in memories.items():
        if array.dtype not in (np.float32, np.float64) or not np.isfinite(array).all():
            raise DisagreementError(f"the memory {key} is not of finite float32 or float64")
        if possible and key not in possible:
            raise DisagreementError(
                f"the state has a memory {key}, of which this run knows nothing"
            )
        shape = possible.get(key, array.shape)
        if array.ndim != 2 or array.shape != shape:
            raise DisagreementError(f"the memory {key} has {array.shape}, this run needs {shape}")
    if missing := sorted(set(needed) - memories.keys()):
        raise DisagreementError(f"the state lacks {len(missing)} memories, {missing[0]} among them")


def refuse_useless(memories: SavedState, exact: Container[str]) -> None:
    """Refuse memories of parameters that travel exactly here, which would be lost silently."""
    lost = sorted(name for name in set(map(parameter_of, memories)) if name in exact)
    if lost:
        raise DisagreementError(
            f"the state has memories of {', '.join(lost)}, which go exact here: use the policy "
            "of the run that saved them"
        )


def parameter_of(key: str) -> str:
    """The parameter whose memory has this key."""
    return key.partition("/")[2].rpartition("/")[0]


def write(folder: str | Path, state: SavedState) -> None:
    """Write a rank's file; a crash leaves the old one or the new one, never half of one."""
    about = _about(state)
    path = Path(folder) / _file(about["rank"], about["ranks"])
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as file:
        file.write(_safetensors().save(dict(state)))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def read(folder: str | Path, origin: StateOrigin, reshard: bool) -> SavedState | list[SavedState]:
    """The states that the rank of `origin` needs: its own, or with `reshard` those of all ranks."""
    found = sorted(Path(folder).glob("rank-*-of-*.safetensors"))
    names = ", ".join(path.name for path in found)
    if not reshard:
        own = Path(folder) / _file(origin.rank, origin.ranks)
        if not own.exists():
            hint = ", pass reshard=True if their number has changed" if found else ""
            there = names or "no such file"
            raise DisagreementError(f"{folder} has no {own.name}: there is {there}{hint}")
        return _read(own)
    all_ranks = [_file(rank, len(found)) for rank in range(len(found))]
    if not found or {path.name for path in found} != set(all_ranks):
        there = names or "no file"
        raise DisagreementError(f"{folder} must hold every rank of one run, there is {there}")
    return [_read(Path(folder) / name) for name in all_ranks]


def _read(path: Path) -> SavedState:
    package = _safetensors()
    try:
        state: SavedState = package.load(path.read_bytes())
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


def _about(state: SavedState) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(np.asarray(state[_ABOUT], np.uint8).tobytes())
        version = about["version"]
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DisagreementError(f"this is no state of compression: {error}") from error
    if version not in VERSIONS:
        raise DisagreementError(f"the state has version {version}: upgrade fewbits")
    if about.pop("crc", None) != _checksum(about, _arrays(state)):
        raise DisagreementError("the state was damaged: checksums differ")
    _refuse_nonsense(about)
    return about


def _refuse_nonsense(about: Mapping[str, Any]) -> None:
    """Refuse a record whose checksum is right and whose content is not."""
    known = _FIELDS if about["version"] == 1 else _FIELDS | {"absent": (list,)}
    wrong = sorted(known.keys() ^ about.keys())
    wrong = wrong or [name for name in known if type(about[name]) not in known[name]]
    if not wrong and not 0 <= about["step"] < MAX_STEP_COUNT:
        wrong = ["step"]
    elif not wrong and not 0 <= about["rank"] < about["ranks"]:
        wrong = ["rank"]
    elif not wrong and not all(type(key) is str for key in about.get("absent", ())):
        wrong = ["absent"]
    if wrong:
        told = str(about.get(wrong[0], "nothing"))[:40]
        raise DisagreementError(f"the state makes no sense: it has {told!r} for {wrong[0]}")


def _checksum(about: Mapping[str, Any], arrays: SavedState) -> int:
    """A checksum, which the file format lacks; it finds even a small change of a memory."""
    return checksum(arrays, crc32c(_bytes(json.dumps(about).encode())))


def checksum(arrays: SavedState, crc: int = 0) -> int:
    """A checksum of arrays and their names; 0 if there are none."""
    for key, array in sorted(arrays.items()):
        crc = crc32c(_bytes(f"{key} {array.dtype} {array.shape}".encode()), crc)
        crc = crc32c(np.ascontiguousarray(array), crc)
    return crc


def _bytes(text: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text, np.uint8)


def _arrays(state: SavedState) -> dict[str, npt.NDArray[Any]]:
    arrays = {key: np.asarray(array) for key, array in state.items() if key != _ABOUT}
    for key, array in arrays.items():
        if not isinstance(key, str) or array.dtype.kind not in "biuf":
            raise DisagreementError(f"the state has {key!r} of {array.dtype}, which are no numbers")
    return arrays


def _check_all(abouts: Sequence[Mapping[str, Any]]) -> None:
    """Refuse states that are not those of all ranks of one run at one step, in order."""
    given = ", ".join(f"rank {a['rank']} of {a['ranks']} at step {a['step']}" for a in abouts)
    expected = [(rank, len(abouts), abouts[0]["step"]) for rank in range(len(abouts))]
    if [(about["rank"], about["ranks"], about["step"]) for about in abouts] != expected:
        raise DisagreementError(f"reshard needs the states of all ranks in order, got {given}")
    for what in ("version", "feedback", "model", "configuration", "plan"):
        others = [about["rank"] for about in abouts if about[what] != abouts[0][what]]
        if others:
            raise DisagreementError(
                f"reshard needs the states of one run: rank {others[0]} has another {what}"
            )
