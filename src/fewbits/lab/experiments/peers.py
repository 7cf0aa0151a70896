"""Peers in the same run: what others' codecs take, lose and cost on one recorded gradient."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np

from fewbits.bench import jobs
from fewbits.bench.jobs import MEMCPY
from fewbits.bench.machine import cpu_model, torch_or_none
from fewbits.bench.timing import Candidate, Plan, Samples, measured
from fewbits.bench.workload import equal_bits, expect
from fewbits.errors import EncodeError
from fewbits.lab import figures
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.gradients import last_of_each
from fewbits.lab.peers import FAMILIES, Family, Gradient, Peer
from fewbits.lab.vectors import Values, relative_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = "gpt"
PLAN, _QUICK_PLAN = Plan(rounds=15, seconds=75), Plan(rounds=4, seconds=6)
MEASURED = "measured"
_OWN_PACKAGE = "fewbits"


@dataclass(frozen=True, slots=True)
class Row:
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


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """Every codec of every package that is installed; a row for each that is not."""
    (own,) = (one for one in last_of_each(settings) if one.model == MODEL)
    shapes = tuple(layer.shape for layer in own.step.gradients.values())
    gradient = Gradient(own.vector, shapes)
    about = f"{own.model} on {own.data}, step {own.step.number}"
    with _calm():
        table, working = [], []
        for family in FAMILIES:
            for row, peer in _family(family, gradient, about):
                table.append(row)
                if peer is not None:
                    working.append((len(table) - 1, peer))
        plan = _QUICK_PLAN if settings.quick else PLAN
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


def _family(family: Family, gradient: Gradient, about: str) -> Iterator[tuple[Row, Peer | None]]:
    """The package's codecs, with a status and without figures; None with those that fail."""
    empty = partial(Row, model=about, values=gradient.vector.size, machine=cpu_model())
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
        yield empty(family.package, number, peer.name, MEASURED), peer


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"


def after_nan(peer: Peer, x: Values) -> str:
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
    peers: Sequence[Peer], x: Values, plan: Plan, tick: Tick
) -> list[tuple[Samples, Samples, Samples]]:
    """Of every peer: memcpy, encoding, decoding, in the same rounds."""
    copy = np.zeros_like(x)
    candidates = [
        Candidate(
            MEMCPY, 1, lambda: np.copyto(copy, x), lambda: expect(equal_bits(copy, x), MEMCPY)
        )
    ]
    for peer in peers:
        message = peer.encode(x)
        once = np.array(peer.decode(message))
        encode, decode = partial(peer.encode, x), partial(peer.decode, message)
        check = partial(_check, peer, x, once)
        # Some use threads of their own: wall time, and the time of the whole process.
        candidates += [Candidate(peer.name, 2, job, check) for job in (encode, decode)]
    memcpy, *others = measured(candidates, plan, tick)
    return [(memcpy, *pair) for pair in zip(others[::2], others[1::2], strict=True)]


def _check(peer: Peer, x: Values, once: Values) -> None:
    """The same result as at first, whatever ran in between."""
    expect(equal_bits(np.array(peer.decode(peer.encode(x))), once), peer.name)


def _row(empty: Row, peer: Peer, x: Values, times: tuple[Samples, Samples, Samples]) -> Row:
    memcpy, encode, decode = times
    message, own = peer.encode(x), peer.decodes
    return Row(
        package=empty.package,
        version=empty.version,
        codec=peer.name,
        status=MEASURED,
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


def _megabytes(x: Values, times: Samples) -> float:
    return x.nbytes / float(np.median(times.wall)) / 1e6


def findings(table: Sequence[Row]) -> list[str]:
    """Where peers are ahead, where they are not, and what was not measured."""
    done = [row for row in table if row.status == MEASURED]
    others = [row for row in done if row.package != _OWN_PACKAGE]
    ours = [row for row in done if row.package == _OWN_PACKAGE]
    found = []
    if others and ours:
        fast, own = (max(rows, key=lambda row: row.encode_ratio or 0) for rows in (others, ours))
        found.append(
            f"Fastest encoder: {fast.package}'s {fast.codec}, {fast.encode_ratio:.2f} times memcpy "
            f"at {fast.bits_per_value:.1f} bits; of ours {own.codec}, {own.encode_ratio:.2f} at "
            f"{own.bits_per_value:.1f}."
        )
    for row in others:
        better = [one for one in ours if _dominates(one, row)]
        if better and row.bias != "exact":
            best = min(better, key=lambda one: one.bits_per_value or 0)
            found.append(
                f"{row.package}'s {row.codec}: {row.bits_per_value:.2f} bits with the error "
                f"{row.error:.2g}; {best.codec} takes {best.bits_per_value:.2f} with "
                f"{best.error:.2g}, {best.bias}."
            )
    hidden = [f"{row.package}'s {row.codec}" for row in done if row.nan == "hidden"]
    found.append(f"One NaN among the values is hidden by: {', '.join(hidden) or 'none'}.")
    missing = [row for row in table if row.status != MEASURED]
    return found + [f"{row.package} {row.version}, {row.codec}: {row.status}." for row in missing]


def _dominates(one: Row, other: Row) -> bool:
    pairs = ((one.bits_per_value, other.bits_per_value), (one.error, other.error))
    return all((mine or 0) <= (theirs or 0) for mine, theirs in pairs)


def draw(table: Sequence[Row]) -> "Figure":
    """Bits against error on the left, speeds on the right."""
    done = [row for row in table if row.status == MEASURED]
    names = [f"{row.package}: {row.codec}" for row in done]
    packages = list(dict.fromkeys(row.package for row in done))
    colours = dict(zip(packages, figures.COLOURS, strict=False))
    drawn, (left, middle, right) = figures.panels(
        "Codecs of others and ours on one gradient", 3, width=13, height=8
    )
    for at, row in enumerate(done):
        own = colours[row.package]
        left.barh(at, row.bits_per_value or 0, color=own, height=0.65, alpha=0.8)
        left.annotate(f"{row.bits_per_value:.1f}", (row.bits_per_value or 0, at), (3, 0),
                      textcoords="offset points", va="center", fontsize=8)  # fmt: skip
        if row.error:
            middle.plot(row.error, at, "o", color=own)
            middle.annotate(f"{row.error:.1g}", (row.error, at), (6, 0), va="center", fontsize=8,
                            textcoords="offset points")  # fmt: skip
        right.plot(row.encode_ratio or 0, at, ">", color=own)
        if row.decode_ratio:
            right.plot(row.decode_ratio, at, "<", color=own, mfc="none")
    for plot, title, label in (
        (left, "size", "bits a value"),
        (middle, "error (log; none: exact)", "relative squared error"),
        (right, "speed (log; open: decode)", "times memcpy"),
    ):
        figures.names(plot, names)
        plot.set_title(title, fontsize=10)
        plot.set_xlabel(label)
    left.set_xlim(0, 37)
    middle.set_xscale("log")
    right.set_xscale("log")
    middle.set_xlim(middle.get_xlim()[0], middle.get_xlim()[1] * 30)
    for plot in (middle, right):
        plot.set_yticklabels([])
    return drawn


EXPERIMENT = Experiment(
    name="peers",
    title="Peers in the same run",
    about="Codecs of torch's hooks, hivemind, bitsandbytes, zstd and blosc2 on the same gradient "
    "as ours, each called as its package calls it, without any network: what would be sent, what "
    "is lost, and the time, with memory allocated anew in every call, ours too. The gradient is "
    "one vector, as in DDP's buckets; codecs with one table or scale for all values fit better "
    "where each layer goes by itself. Peers were made for other ends: casts for speed, PowerSGD "
    "for use with error feedback, bitsandbytes for memory, zstd and blosc2 for any data without "
    "loss. Packages that are not installed have a row that says so.",
    row=Row,
    compute=rows,
    draw=draw,
    findings=findings,
)
