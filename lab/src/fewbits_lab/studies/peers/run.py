"""Peers in the same run: what others' codecs take, lose and cost on one recorded gradient."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from fewbits.bench import jobs
from fewbits.bench.jobs import MEMCPY
from fewbits.bench.machine import cpu_model, torch_or_none
from fewbits.bench.timing import Plan, Samples, TimedJob, measured
from fewbits.bench.workload import equal_bits, expect
from fewbits.errors import EncodeError
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.peers import FAMILIES, Family, Peer, PeerInput
from fewbits_lab.recordings.gradients import last_of_each
from fewbits_lab.vectors import VectorValues, relative_error

MODEL = "gpt"
_PLAN, _QUICK_PLAN = Plan(rounds=15, seconds=75), Plan(rounds=4, seconds=6)
PEERS_MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class PeersRow:
    """One codec; figures are None where `status` says why it was not measured.

    Ratios are speeds against memcpy of the vector, in wall time, the median over rounds. `nan` is
    what becomes of one NaN among the values: kept, spread to others, hidden, or refused.
    """

    package: str
    version: str
    codec: str
    status: str
    model: str
    values: int
    machine: str
    bits_per_value: float | None = None
    error: float | None = None
    bias: str | None = None
    nan: str | None = None
    describes: str | None = None
    checksum: bool | None = None
    encode_ratio: float | None = None
    decode_ratio: float | None = None
    encode_megabytes_per_second: float | None = None
    decode_megabytes_per_second: float | None = None
    encode_cpu_seconds: float | None = None
    decode_cpu_seconds: float | None = None
    note: str = ""


def rows(settings: StudySettings, tick: Tick) -> list[PeersRow]:
    """Every codec of every package that is installed; a row for each that is not."""
    (own,) = (one for one in last_of_each(settings) if one.model == MODEL)
    shapes = tuple(layer.shape for layer in own.step.gradients.values())
    gradient = PeerInput(own.vector, shapes)
    about = f"{own.model} on {own.data}, step {own.step.number}"
    with _calm():
        table, working = [], []
        for family in FAMILIES:
            for row, peer in _family(family, gradient, about):
                table.append(row)
                if peer is not None:
                    working.append((len(table) - 1, peer))
        plan = _QUICK_PLAN if settings.quick else _PLAN
        samples = _timed([peer for _, peer in working], gradient.vector, plan, tick)
    for (place, peer), times in zip(working, samples, strict=True):
        table[place] = _row(table[place], peer, gradient.vector, times)
    return table


@contextmanager
def _calm() -> Iterator[None]:
    """One thread of torch, and no warnings of packages about themselves."""
    with jobs.one_torch_thread(torch_or_none()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _family(
    family: Family, gradient: PeerInput, about: str
) -> Iterator[tuple[PeersRow, Peer | None]]:
    """The package's codecs, with a status and without figures; None with those that fail."""
    empty = partial(PeersRow, model=about, values=gradient.vector.size, machine=cpu_model())
    try:
        number = version(family.package)
        found = family.make(gradient)
    except (PackageNotFoundError, ImportError, OSError) as error:
        if isinstance(error, PackageNotFoundError):
            reason = "not installed"
        else:
            reason = f"does not import: {error}"
        yield empty(family.package, family.tried, "all", reason), None
        return
    for peer in found:
        try:
            peer.decode(peer.encode(gradient.vector))
        except Exception as error:
            yield empty(family.package, number, peer.name, f"fails: {_short(error)}"), None
            continue
        yield empty(family.package, number, peer.name, PEERS_MEASURED), peer


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"


def after_nan(peer: Peer, x: VectorValues) -> str:
    """What becomes of one NaN among the values."""
    place = x.size // 3
    bad = x.copy()
    bad[place] = np.nan
    try:
        lost = np.isnan(peer.decode(peer.encode(bad)))
    except EncodeError:
        return "refused"
    except Exception as error:  # others' packages raise what they like
        return f"fails ({type(error).__name__})"
    if not lost.any():
        return "hidden"
    return "kept" if lost[place] and lost.sum() == 1 else "spread"


def _timed(
    peers: Sequence[Peer], x: VectorValues, plan: Plan, tick: Tick
) -> list[tuple[Samples, Samples, Samples]]:
    """Of every peer: memcpy, encoding, decoding, in the same rounds."""
    copy = np.zeros_like(x)
    candidates = [
        TimedJob(MEMCPY, 1, lambda: np.copyto(copy, x), lambda: expect(equal_bits(copy, x), MEMCPY))
    ]
    for peer in peers:
        message = peer.encode(x)
        once = np.array(peer.decode(message))
        encode, decode = partial(peer.encode, x), partial(peer.decode, message)
        check = partial(_check, peer, x, once)
        # Some use threads of their own: wall time, and the time of the whole process.
        candidates += [TimedJob(peer.name, 2, job, check) for job in (encode, decode)]
    memcpy, *others = measured(candidates, plan, tick)
    return [(memcpy, *pair) for pair in zip(others[::2], others[1::2], strict=True)]


def _check(peer: Peer, x: VectorValues, once: VectorValues) -> None:
    """The same result as at first, whatever ran in between."""
    expect(equal_bits(np.array(peer.decode(peer.encode(x))), once), peer.name)


def _row(
    empty: PeersRow, peer: Peer, x: VectorValues, times: tuple[Samples, Samples, Samples]
) -> PeersRow:
    memcpy, encode, decode = times
    message, own = peer.encode(x), peer.decodes
    return PeersRow(
        package=empty.package,
        version=empty.version,
        codec=peer.name,
        status=PEERS_MEASURED,
        model=empty.model,
        values=x.size,
        machine=empty.machine,
        bits_per_value=8 * peer.size(message) / x.size,
        error=relative_error(x, peer.decode(message)),
        bias=peer.bias,
        nan=after_nan(peer, x),
        describes=peer.describes,
        checksum=peer.checksum,
        encode_ratio=float(np.median(memcpy.wall / encode.wall)),
        decode_ratio=float(np.median(memcpy.wall / decode.wall)) if own else None,
        encode_megabytes_per_second=_megabytes(x, encode),
        decode_megabytes_per_second=_megabytes(x, decode) if own else None,
        encode_cpu_seconds=float(np.median(encode.cpu)),
        decode_cpu_seconds=float(np.median(decode.cpu)) if own else None,
        note=peer.note,
    )


def _megabytes(x: VectorValues, times: Samples) -> float:
    return x.nbytes / float(np.median(times.wall)) / 1e6
