"""Ranks that differ in an option learn it when they start, or the option is free to differ."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from fewbits import DisagreementError, PeerError
from fewbits.collectives.comm import LocalComm
from fewbits.collectives.header import Phase, RankHeader
from fewbits.reference.switching import DEFAULT_TOP
from fewbits.session import (
    REDUCE_SCATTER,
    AdapterParts,
    ArrayValues,
    Job,
    ModelParameter,
    ModelParameters,
    Options,
    Session,
    option,
)
from fewbits.session.agreement import _packed
from fewbits.session.defaults import routes
from fewbits.session.options import (
    GradientOptions,
    MeanOptions,
    ScatterOptions,
    ShardOptions,
    _open_fields,
)
from fewbits.switch.job import Aggregators

torch = pytest.importorskip("torch")
localsgd = pytest.importorskip("fewbits.localsgd")

from fewbits.localsgd.options import LocalOptions, RoundOptions  # noqa: E402

# A model of `LocalSGD` here is small, and goes exact by default.
pytestmark = pytest.mark.filterwarnings("ignore:.* values are compressed")
PARAMETERS = [ModelParameter("first", (150, 600)), ModelParameter("second", (700,))]
COUNT = sum(parameter.size for parameter in PARAMETERS)
HOSTS = ("127.0.0.1:9", "127.0.0.1:10")


def everyone(own: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(own)) as threads:
        return list(threads.map(work, own))


def caught(work: Callable[[], object]) -> Exception | None:
    try:
        work()
    except Exception as error:
        return error
    return None


def session(comm: LocalComm, **options: Any) -> Session:
    uplink = options.pop("uplink", "natural")
    downlink = options.pop("downlink", None)
    parameters = options.pop("parameters", PARAMETERS)
    unit, parts = options.pop("unit", None), options.pop("parts", AdapterParts())
    chosen = Options(**options)
    routing = routes(uplink, downlink, chosen, ModelParameters(parameters))
    if unit is not None:
        routing = replace(routing, unit=unit)  # type: ignore[type-var]
    return Session(comm, routing, chosen, parts)


def local(comm: LocalComm, **options: Any) -> Any:
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.BatchNorm1d(30))
    own = localsgd.LocalSGD(net, "natural", comm=comm, **{"local_steps": 2} | options)
    own.net = net
    return own


def started(make: Callable[..., Any], every: Sequence[dict[str, Any]]) -> list[Exception | None]:
    """What each rank raises at its start, with options of its own."""
    group = [
        make(comm, **own)
        for comm, own in zip(LocalComm.group(len(every), 10.0), every, strict=True)
    ]
    return everyone(group, lambda own: caught(own.start))


@dataclass
class Difference:
    """Options of one rank, and of all others."""

    odd: dict[str, Any]
    base: dict[str, Any] = field(default_factory=dict)
    make: Callable[..., Any] = session


def of_switch(**chosen: Any) -> dict[str, Any]:
    return {"collective": "switch", "aggregators": Aggregators(HOSTS, **chosen)}


DIFFERENCES = {
    "feedback": Difference({"feedback": "ef14"}),
    "policy": Difference({"policy": {"first": "exact"}}),
    "nonfinite": Difference({"nonfinite": "skip"}),
    "seed": Difference({"seed": 1}),
    "collective": Difference({"collective": "star"}),
    "aggregators": Difference(of_switch(chunk=99), of_switch()),
    "allow_bias": Difference({"allow_bias": True}, {"uplink": "auto"}),
    "across": Difference({"across": (0, 1)}),
    "on_failure": Difference({"on_failure": "continue", "meeting": "a store"}),
    "inside": Difference({"inside": "natural"}, {"collective": REDUCE_SCATTER}),
    "gather": Difference({"gather": "bfloat16"}, {"collective": REDUCE_SCATTER}),
    "local_steps": Difference({"local_steps": 3}, make=local),
    "outer": Difference({"outer": "sgd:lr=0.5"}, make=local),
    "overlap": Difference({"overlap": True}, make=local),
    "fragments": Difference({"fragments": 2}, make=local),
    "delay": Difference({"delay": 1}, make=local),
    "blend": Difference({"blend": 0.5}, make=local),
    "average_buffers": Difference({"average_buffers": ()}, make=local),
}
BESIDE_OPTIONS = {
    "uplink": Difference({"uplink": "bfloat16"}),
    "downlink": Difference({"downlink": "identity"}),
    "candidates": Difference({"uplink": "auto"}),
    "policy": Difference({"policy": lambda name, shape: None}),
    "model": Difference({"parameters": PARAMETERS[:1]}),
    "model ": Difference({"parameters": [PARAMETERS[0], ModelParameter("second", (7, 100))]}),
    "unit": Difference({"unit": 4096}),
    "aggregators.addresses": Difference(
        {"collective": "switch", "aggregators": HOSTS[:1]}, of_switch()
    ),
    "aggregators.top": Difference(of_switch(top=DEFAULT_TOP + 1), of_switch()),
    "vectors": Difference({"parts": AdapterParts(agreed={"vectors": "1"})}),
}


def check(name: str, difference: Difference, odd: int, ranks: int) -> None:
    every = [difference.base | (difference.odd if rank == odd else {}) for rank in range(ranks)]
    for rank, error in enumerate(started(difference.make, every)):
        assert type(error) is DisagreementError, error
        assert f"{name}" in str(error)
        assert f"on rank {odd}" in str(error) or rank == odd
        assert "\n" not in str(error)
        assert len(str(error)) < 1000


def declared() -> Iterator[tuple[str, Any]]:
    for each in fields(LocalOptions):
        yield each.name, each.metadata


def test_options_are_those_of_all_adapters() -> None:
    adapters = (ScatterOptions, ShardOptions, MeanOptions, GradientOptions, RoundOptions)
    names = {name for each in adapters for name in each.__annotations__}
    assert names == {name for name, _ in declared()}


def test_every_option_says_whether_ranks_agree_on_it() -> None:
    for name, about in declared():
        assert callable(about["agreed"]) != bool(about["free"]), name
    undeclared = option(0, "some option").metadata
    assert callable(undeclared["agreed"]) == bool(undeclared["free"])


def test_every_option_on_which_ranks_agree_is_tried_here() -> None:
    assert DIFFERENCES.keys() == {name for name, about in declared() if about["agreed"]}
    assert FREE.keys() == {name for name, about in declared() if about["free"]}


@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize("name", DIFFERENCES)
def test_ranks_that_differ_in_an_option_raise_and_name_it(name: str, odd: int) -> None:
    check(name, DIFFERENCES[name], odd, 2)


@pytest.mark.parametrize("name", BESIDE_OPTIONS)
def test_so_do_ranks_that_differ_in_anything_else(name: str) -> None:
    check(name.strip(), BESIDE_OPTIONS[name], 1, 3)


def test_shards_agree_on_the_same_options() -> None:
    names = ScatterOptions.__annotations__.keys() & DIFFERENCES.keys()
    assert names == {"feedback", "policy", "nonfinite", "seed"}
    for name in names:
        check(name, replace(DIFFERENCES[name], base={"collective": REDUCE_SCATTER}), 1, 2)


FREE: dict[str, Callable[..., Any]] = {
    "timeout": session,
    "threads": session,
    "device": session,
    "staged": session,
    "process_group": local,
    "islands": local,
    "meeting": partial(session, on_failure="continue", meeting="a store"),
}
OTHERWISE = {
    "timeout": 7.0, "threads": 3, "device": "cpu", "staged": True, "process_group": "mine",
    "islands": localsgd.Islands(torch.distributed.HashStore()), "meeting": "another store",
}  # fmt: skip


@pytest.mark.parametrize("name", FREE)
def test_ranks_may_differ_in_a_free_option_and_get_the_same_bits(name: str) -> None:
    found = []
    for odd in ({}, {name: OTHERWISE[name]}):
        comms = LocalComm.group(2, 10.0)
        group = [FREE[name](comms[0]), FREE[name](comms[1], **odd)]
        found.append(everyone(group, trained))
    (mine, theirs), others = found
    assert mine == theirs
    assert mine == others[0] == others[1]


def trained(own: Any) -> bytes:
    """What two steps of a rank lead to."""
    if isinstance(own, Session):
        values = np.random.default_rng(own.comm.rank).standard_normal(COUNT).astype(np.float32)
        before = values.copy()
        for _ in range(2):
            job = Job(0, ArrayValues(values), PARAMETERS, is_last=True)
            own.submit(job)
            own.wait(job)
        assert not np.array_equal(values, before)
        result = values.tobytes()
    else:
        own.start()
        with torch.no_grad():
            for each in own.net.parameters():
                each += own.session.comm.rank + 1
        for _ in range(2):
            own.step()
        result = own.net[0].weight.detach().numpy().tobytes()
    own.close()
    return result


def test_the_error_tells_both_values() -> None:
    first, second = started(session, [{"nonfinite": "skip"}, {"nonfinite": "raise"}])
    assert str(first) == "ranks do not run the same: nonfinite: skip here, raise on rank 1"
    assert str(second) == "ranks do not run the same: nonfinite: raise here, skip on rank 0"
    first, _, _ = started(session, [{}, {"seed": 3}, {"seed": 3}])
    assert str(first) == "ranks do not run the same: seed: 0 here, 3 on rank 1, 2"


def test_a_configuration_that_is_too_long_still_differs() -> None:
    def many(last: str) -> dict[str, Any]:
        return {"average_buffers": ["x" * 5000, last]}

    for error in started(local, [many("a"), many("b")]):
        assert type(error) is DisagreementError
        assert len(str(error)) < 500
    assert started(local, [many("a"), many("a")]) == [None, None]
    assert len(_packed({"a": "x" * 9000})) == len(_packed({}))


def test_options_at_their_default_are_not_told() -> None:
    told = [
        session(LocalComm.group(1)[0], **own)._agreement.configuration for own in ({}, of_switch())
    ]
    assert not told[0].agreed().keys() & {"seed", "nonfinite", "collective", "aggregators.top"}
    assert told[1].agreed()["aggregators.addresses"] == ", ".join(HOSTS)


def test_a_state_may_go_on_with_other_aggregators_that_sum_alike() -> None:
    comm = LocalComm.group(1)[0]
    own, moved, other = (
        session(comm, collective="switch", aggregators=given).checkpoint.origin()
        for given in (HOSTS, HOSTS[:1], Aggregators(HOSTS, top=DEFAULT_TOP + 1))
    )
    assert own == moved
    assert own.configuration != other.configuration
    assert "127.0.0.1" not in own.configuration


@dataclass(frozen=True)
class KeyedAggregators(Aggregators):
    """Aggregators with more fields than there are."""

    key: bytes | str | None = None
    seconds: float = 1.5
    hidden: int = field(default=77, repr=False)


@pytest.mark.parametrize("key", [b"do not tell anybody", "do not tell anybody"])
def test_secrets_are_not_told(key: bytes | str) -> None:
    told = _open_fields(KeyedAggregators(HOSTS, key=key))
    assert "not tell" not in str(told)
    assert "77" not in str(told)
    assert (told["key"], told["seconds"]) == ("yes", "1.5")
    assert _open_fields(KeyedAggregators(HOSTS))["key"] == "no"


def test_a_policy_that_fails_on_one_rank_is_an_error_on_all() -> None:
    def fails(name: str, shape: tuple[int, ...]) -> None:
        raise ZeroDivisionError("no rule for it")

    mine, theirs = started(session, [{"policy": fails}, {}])
    assert type(mine) is ZeroDivisionError
    assert type(theirs) is PeerError
    assert "no rule for it" in str(theirs)


@pytest.mark.parametrize("version", [1, 2])
def test_a_rank_of_an_earlier_version_is_refused_in_the_first_exchange(version: int) -> None:
    """It sends one header, as long as those of now, and would wait for no more."""
    comms = LocalComm.group(2, 10.0)
    own = session(comms[0])
    sent = RankHeader(Phase.CONFIGURE, 0, 0, 77, text="worker=natural").encode()
    sent.array()[4] = version
    comms[0]._mailboxes[0][1][0].put(sent.tobytes())
    with pytest.raises(DisagreementError, match=rf"rank 1 does not .* 3, but {version}"):
        own.start()
    received = comms[0]._mailboxes[1][0][0]
    assert received.qsize() == 1
    assert received.get()[:6] == b"fwbh\x03\x00"


def by_name(name: str, shape: Sequence[int]) -> str:
    return "sign" if name == "second" else "natural"


def test_policies_that_differ_are_told_by_the_first_tensor() -> None:
    """Not by digests of all their decisions."""
    every = [{"policy": by_name}, {"policy": lambda name, shape: None}, {"policy": by_name}]
    for rank, error in enumerate(started(session, every)):
        assert isinstance(error, DisagreementError)
        here, there = "sign/natural", "natural/natural"
        told = {
            0: f"policy: second by {here} here, second by {there} on rank 1",
            1: f"policy: second by {there} here, second by {here} on rank 0, 2",
            2: f"policy: second by {here} here, second by {there} on rank 1",
        }
        assert str(error).endswith(told[rank]), str(error)
