"""A session over `LocalComm`, with NumPy arrays and no framework."""

import logging
import math
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbits import DisagreementError, EncodeError, SpecError
from fewbits.collectives.comm import LocalComm
from fewbits.policy import Default
from fewbits.session import (
    AdapterParts,
    ArrayValues,
    Job,
    ModelParameter,
    ModelParameters,
    Options,
    Report,
    Session,
)
from fewbits.session.defaults import routes

RANKS = 3
PARAMETERS = [ModelParameter("first", (150, 600)), ModelParameter("second", (700,))]
COUNT = sum(parameter.size for parameter in PARAMETERS)


def sessions(
    uplink: str = "natural", *, has_thread: bool = True, ranks: int = RANKS, **options: Any
) -> list[Session]:
    chosen = Options(policy=lambda name, shape: None, **options)
    return [
        Session(
            comm,
            routes(uplink, None, chosen, ModelParameters(PARAMETERS)),
            chosen,
            AdapterParts(has_thread=has_thread),
        )
        for comm in LocalComm.group(ranks, 10.0)
    ]


def everyone(own: Sequence[Session], work: Callable[[Session], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(own)) as threads:
        return list(threads.map(work, own))


def gradient(rank: int, step: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng([rank, step]).standard_normal(COUNT).astype(dtype)


def step(own: Session, number: int, array: np.ndarray | None = None) -> np.ndarray:
    values = gradient(own.comm.rank, number) if array is None else array
    job = Job(0, ArrayValues(values), PARAMETERS, is_last=True)
    own.submit(job)
    own.wait(job)
    return values


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
@pytest.mark.parametrize("has_thread", [True, False])
def test_all_ranks_get_the_mean_bit_for_bit(collective: str, has_thread: bool) -> None:
    group = sessions("identity", collective=collective, has_thread=has_thread)
    for number in range(2):
        means = everyone(group, lambda own: step(own, number))  # noqa: B023
        total = np.zeros(COUNT, np.float32)
        for rank in range(RANKS):
            total += gradient(rank, number)
        assert all(np.array_equal(mean, total / np.float32(RANKS)) for mean in means)
    everyone(group, Session.close)
    assert Report(**group[0].figures()).steps == 2


def test_sixteen_bits_overflow_to_infinity_and_a_skipped_step_is_zero() -> None:
    group = sessions("identity", nonfinite="skip")

    def sick(own: Session) -> np.ndarray:
        return step(own, 0, np.full(COUNT, 1.0 if own.comm.rank else np.nan, np.float16))

    assert all(not mean.any() for mean in everyone(group, sick))
    assert all(own.accounting.skipped for own in group)
    large = np.full(COUNT, 60000, np.float16)
    means = everyone(group, lambda own: step(own, 1, large.copy()))
    assert all((mean == 60000).all() for mean in means)
    everyone(group, Session.close)


def test_a_session_goes_on_from_what_it_saved(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    old, new = sessions("tiny"), sessions("tiny")
    for number in range(3):
        everyone(old, lambda own: step(own, number))  # noqa: B023
    everyone(old, lambda own: own.checkpoint.save(tmp_path))
    everyone(new, lambda own: own.checkpoint.load(tmp_path))
    for number in range(3, 5):
        means = [everyone(group, lambda own: step(own, number)) for group in (old, new)]  # noqa: B023
        assert all(map(np.array_equal, *means))
    fewer = sessions("tiny", ranks=2)
    for error in everyone(fewer, lambda own: caught(lambda: own.checkpoint.load(tmp_path))):
        assert isinstance(error, DisagreementError)
    for group in (old, new, fewer):
        everyone(group, Session.close)


@pytest.mark.parametrize("uplink", ["identity", "natural", "auto"])
def test_values_that_their_parameters_do_not_fill_are_refused(uplink: str) -> None:
    """No mean is ever that of a part, also when a batch grows from one step to the next."""
    group = sessions(uplink)
    everyone(group, lambda own: step(own, 0))
    for size in (COUNT + 1, COUNT - 1, 2 * COUNT):
        values = [np.full(size, own.comm.rank, np.float32) for own in group]
        errors = everyone(
            group,
            lambda own: caught(lambda: step(own, 1, values[own.comm.rank])),  # noqa: B023
        )
        for error in errors:
            assert isinstance(error, SpecError)
            assert f"{size} values" in str(error)
        assert all((mine == rank).all() for rank, mine in enumerate(values))  # untouched
        everyone(group, Session.close)


def caught(work: Callable[[], object]) -> Exception | None:
    try:
        work()
    except Exception as error:
        return error
    return None


def test_other_configurations_are_refused_on_all_ranks() -> None:
    group = [*sessions(seed=0)[:1], *sessions(seed=1)[1:]]
    comms = LocalComm.group(RANKS, 10.0)
    for own, comm in zip(group, comms, strict=True):
        own.comm._mailboxes = comm._mailboxes  # type: ignore[attr-defined] # one group
    for error in everyone(group, lambda own: caught(own.start)):
        assert isinstance(error, DisagreementError)


def test_after_a_failure_all_ranks_can_close_and_go_on() -> None:
    group = sessions("identity", nonfinite="raise")

    def fails(own: Session) -> Exception | None:
        return caught(lambda: step(own, 0, np.full(COUNT, np.inf, np.float32)))

    assert all(isinstance(error, EncodeError) for error in everyone(group, fails))
    assert all(isinstance(own.failure, EncodeError) for own in group)
    everyone(group, Session.close)
    means = everyone(group, lambda own: step(own, 1))
    assert np.array_equal(means[0], means[1])
    everyone(group, Session.close)


def test_no_framework_is_imported() -> None:
    text = "import sys, fewbits.session; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", text], check=True)


def test_the_session_stays_small() -> None:
    names = [name for name in dir(Session) if not name.startswith("_")]
    assert len(names) < 12, names


def test_the_last_step_has_the_figures_of_one_step() -> None:
    group = sessions()
    assert group[0].accounting.last_step().step == -1
    reports = [everyone(group, lambda own: step(own, number)) for number in range(2)]  # noqa: B023
    assert len(reports) == 2
    last, total = group[0].accounting.last_step(), Report(**group[0].figures())
    everyone(group, Session.close)
    assert (last.step, last.uplink, last.downlink) == (1, "natural", "natural")
    assert last.plain_bytes == total.plain_bytes // 2
    assert 0 < last.sent_bytes < total.payload_bytes + total.header_bytes
    assert last.ratio == pytest.approx(total.ratio, rel=0.05)
    assert 0 < last.codec_seconds < total.codec_seconds
    assert last.waiting_seconds > 0
    own = last.as_dict()
    assert own["ratio"] == last.ratio
    assert own["sampled"] == "first"
    assert "sample" not in own


def test_the_error_is_that_of_this_ranks_own_encoding() -> None:
    errors = {}
    for uplink in ("natural", "identity", "bfloat16"):
        group = sessions(uplink)
        everyone(group, lambda own: step(own, 0))
        errors[uplink] = [own.accounting.last_step().relative_error for own in group]
        everyone(group, Session.close)
    assert errors["identity"] == [None] * RANKS  # nothing was compressed
    for found in errors["natural"]:
        assert found == pytest.approx(math.sqrt(0.08), rel=0.25)  # of Gaussian values, below 1/8
    assert len(set(errors["natural"])) == RANKS  # of each rank's own values
    assert max(errors["bfloat16"]) < 0.01
    assert min(errors["bfloat16"]) > 0


def test_a_sample_of_zeros_or_infinities_has_no_error() -> None:
    group = sessions()
    for bad in (0.0, np.inf):
        everyone(group, lambda own: step(own, 0, np.full(COUNT, bad, np.float32)))  # noqa: B023
        assert group[0].accounting.last_step().relative_error is None
    everyone(group, Session.close)


def test_what_happens_is_logged_under_our_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "fewbits"):
        group = sessions(nonfinite="skip")
        everyone(group, lambda own: step(own, 0))
        everyone(group, lambda own: step(own, 1, np.full(COUNT, np.inf, np.float32)))
        everyone(group, Session.close)
    assert all(record.name.startswith("fewbits.") for record in caplog.records)
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("INFO", "rank 0 of 3: uplink natural, downlink natural, sharded") in said
    assert ("WARNING", "step 1 has NaN or infinite gradients: skipped") in said
    assert sum(level == "DEBUG" for level, _ in said) == 2 * RANKS


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
def test_a_profiler_sees_the_parts_of_a_step(collective: str) -> None:
    open_: list[str] = []
    seen: list[tuple[int, str]] = []

    @contextmanager
    def ranges(name: str) -> Iterator[None]:
        seen.append((threading.get_ident(), name))
        open_.append(name)
        yield
        open_.remove(name)

    options = Options(policy=lambda name, shape: None, collective=collective)
    group = [
        Session(
            comm,
            routes("natural", None, options, ModelParameters(PARAMETERS)),
            options,
            AdapterParts(ranges=ranges),
        )
        for comm in LocalComm.group(2, 10.0)
    ]
    everyone(group, lambda own: step(own, 0))
    everyone(group, Session.close)
    names = {name for _, name in seen}
    assert {"fewbits.encode", "fewbits.exchange", "fewbits.decode"} <= names
    assert ("fewbits.relay" in names) == (collective != "gather")
    assert not open_


SMALL = [ModelParameter("matrix", (30, 100)), ModelParameter("bias", (100,))]


def warned(
    parameters: Sequence[ModelParameter], policy: Any = None, uplink: str = "natural"
) -> Any:
    """The warnings of ranks of a model."""
    options = Options(policy=policy)
    group = [
        Session(comm, routes(uplink, None, options, ModelParameters(parameters)), options)
        for comm in LocalComm.group(2, 10.0)
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            everyone(group, Session.start)
    everyone(group, Session.close)
    return [str(each.message) for each in caught]


def test_a_model_that_is_hardly_compressed_is_told_once_with_the_cure() -> None:
    (text,) = warned(SMALL)
    assert text == (
        "0 % of 3,100 values are compressed: 3,000 go exact (under 16384 elements), 100 go exact "
        "(one-dimensional); policy=fewbits.policy.Default(small=1024) compresses 97 %, smaller "
        "matrices too"
    )
    (text,) = warned(SMALL[1:])
    assert text.endswith(
        "policy={'*': 'natural'} compresses all, also vectors, which suffer most from noise"
    )
    (text,) = warned(SMALL, uplink="auto")
    assert text.startswith("0 % of 3,100")


@pytest.mark.parametrize(
    ("policy", "uplink"),
    [
        (Default(small=1024), "natural"),
        ({"*": "natural"}, "natural"),
        ({"*": "exact"}, "natural"),  # the user's own wish
        (None, "identity"),
    ],
)
def test_the_cure_and_the_users_own_wish_are_not_warned_of(policy: Any, uplink: str) -> None:
    assert not warned(SMALL, policy, uplink)


def test_half_is_enough() -> None:
    assert not warned([*SMALL, ModelParameter("large", (200, 200))])
