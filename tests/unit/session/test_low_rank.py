"""Sessions whose matrices travel as factors: what they agree on, save, refuse and count."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fewbits
from fewbits import DisagreementError, SpecError
from fewbits.collectives.comm import LocalComm
from fewbits.feedback.store import BASIS, WORKER
from fewbits.low_rank import FittingOrSmall, LowRank, low_rank
from fewbits.policy import Default
from fewbits.presets import LOW_RANK, PRESETS
from fewbits.session import (
    AdapterParts,
    ArrayValues,
    Job,
    ModelParameter,
    ModelParameters,
    Options,
    Report,
    Session,
    thinning,
)
from fewbits.session.defaults import route, routes
from unit.session.test_session import caught, everyone

SPEC = "low-rank:rank=3|sparse-dithering"
CONV, WIDE = ModelParameter("conv", (20, 6, 3, 3)), ModelParameter("wide", (40, 300))
BIAS, SMALL = ModelParameter("bias", (33,)), ModelParameter("small", (12, 13))
TALL, LARGE = ModelParameter("tall", (700, 50)), ModelParameter("large", (3, 9000))
PARAMETERS = (CONV, BIAS, WIDE, SMALL, LARGE, TALL)
FACTORED = {"conv", "wide", "tall"}


def sessions(
    uplink: str = SPEC,
    *,
    ranks: int = 3,
    model: Sequence[ModelParameter] = PARAMETERS,
    **given: Any,
) -> list[Session]:
    chosen = Options(**given)
    return [
        Session(
            comm,
            routes(uplink, None, chosen, ModelParameters(model)),
            chosen,
            AdapterParts(),
        )
        for comm in LocalComm.group(ranks, 10.0)
    ]


def gradient(rank: int, step: int, name: str) -> np.ndarray:
    size = next(each.size for each in PARAMETERS if each.name == name)
    seed = [rank, step, *name.encode()]
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def step(
    own: Session,
    number: int,
    buckets: Sequence[Sequence[ModelParameter]] = (PARAMETERS,),
    dtype: Any = np.float32,
    bad: float | None = None,
) -> dict[str, np.ndarray]:
    """One step with some buckets; the means by name."""
    jobs = []
    for index, bucket in enumerate(buckets):
        parts = [gradient(own.comm.rank, number, each.name) for each in bucket]
        values = np.concatenate(parts).astype(dtype)
        if bad is not None and own.comm.rank == 1 and index == 0:
            values[3] = bad
        last = index == len(buckets) - 1
        jobs.append((Job(index, ArrayValues(values), bucket, is_last=last), values))
        own.submit(jobs[-1][0])
    own.wait(jobs[-1][0])
    means = {}
    for bucket, (_, values) in zip(buckets, jobs, strict=True):
        ends = np.cumsum([each.size for each in bucket])
        for each, part in zip(bucket, np.split(values, ends[:-1]), strict=True):
            means[each.name] = part
    return means


def train(
    group: Sequence[Session], steps: range, **options: Any
) -> list[list[dict[str, np.ndarray]]]:
    return everyone(group, lambda own: [step(own, number, **options) for number in steps])


def bits(means: Sequence[dict[str, np.ndarray]]) -> bytes:
    return b"".join(each[own.name].tobytes() for each in means for own in PARAMETERS)


def memories(own: Session) -> dict[str, np.ndarray]:
    state = own.checkpoint.state_dict()
    return {key: state[key] for key in state if key != "fewbits"}


def close(*groups: Sequence[Session]) -> None:
    for group in groups:
        everyone(group, Session.close)


@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_all_ranks_end_with_the_same_means(ranks: int) -> None:
    group = sessions(ranks=ranks)
    means = train(group, range(3))
    assert len({bits(each) for each in means}) == 1
    routing = group[0].routing
    assert {each.name for each in PARAMETERS if routing.is_factored(each)} == FACTORED
    assert {each.name for each in PARAMETERS if routing.is_beside(each)} == {"bias", "small"}
    assert routing.choices["large"] == fewbits.operator(PRESETS["tiny"].operator)
    # What vectors lose both ways is in the memories of ranks and owners, which give it back.
    bias = [np.mean([gradient(rank, n, "bias") for rank in range(ranks)], 0) for n in range(3)]
    assert np.abs(means[0][0]["bias"] - bias[0]).max() > 0
    given = sum(memories(own)["worker/bias/0"][0] for own in group) / ranks
    np.testing.assert_allclose(
        sum(own["bias"] for own in means[0]) + given, sum(bias), rtol=1e-5, atol=1e-5
    )
    close(group)


BUCKETS = [
    (PARAMETERS,),
    ((TALL,), (LARGE, SMALL), (WIDE, BIAS, CONV)),
    tuple((each,) for each in reversed(PARAMETERS)),
]


@pytest.mark.parametrize("ranks", [3, 5])
def test_neither_buckets_nor_threads_change_a_bit(ranks: int) -> None:
    found = set()
    for buckets, threads in zip(BUCKETS, (1, 2, 3), strict=True):
        group = sessions(ranks=ranks, threads=threads)
        found |= {bits(each) for each in train(group, range(3), buckets=buckets)}
        close(group)
    assert len(found) == 1


THIN = (CONV, BIAS, WIDE, SMALL, TALL)


def sent(buckets: Sequence[Sequence[ModelParameter]], ranks: int) -> tuple[int, bytes]:
    """Header bytes of a step, after the first one, and the means of three."""
    group = sessions(ranks=ranks, model=THIN)
    everyone(group, Session.start)
    first = train(group, range(1), buckets=buckets)
    before = group[0].progress.spent.header_bytes
    means = [*first[0], *train(group, range(1, 3), buckets=buckets)[0]]
    close(group)
    found = b"".join(each[own.name].tobytes() for each in means for own in THIN)
    return (group[0].progress.spent.header_bytes - before) // 2, found


@pytest.mark.parametrize(("ranks", "exchanges"), [(2, 3), (4, 5)])
def test_all_that_is_thin_shares_its_messages(
    monkeypatch: pytest.MonkeyPatch, ranks: int, exchanges: int
) -> None:
    """Two exchanges of factors, of one hop or of two, and the end of the step, for any buckets;
    more of them, with the same bits, where there is more to send than need wait."""
    buckets = [[each for each in own if each in THIN] for own in BUCKETS[1]]
    alike = [sent(own, ranks) for own in ((THIN,), buckets, [[each] for each in THIN])]
    assert {headers for headers, _ in alike} == {256 * (ranks - 1) * exchanges}
    monkeypatch.setattr(thinning, "THIN_BATCH", 2000)
    more, means = sent(buckets, ranks)
    assert more == 256 * (ranks - 1) * (2 * exchanges - 1)
    assert {means} == {found for _, found in alike}


def test_other_types_do_not_wait_together() -> None:
    group = sessions(ranks=2, model=THIN)

    def work(own: Session) -> dict[str, np.ndarray]:
        jobs = []
        for at, (each, dtype) in enumerate(
            [(TALL, np.float32), (WIDE, np.float64), (CONV, np.float16), (BIAS, np.float16)]
        ):
            values = gradient(own.comm.rank, 0, each.name).astype(dtype)
            jobs.append((Job(at, ArrayValues(values), [each], is_last=at == 3), values))
            own.submit(jobs[-1][0])
        own.wait(jobs[-1][0])
        return {job.parameters[0].name: values for job, values in jobs}

    first, second = everyone(group, work)
    for name, values in first.items():
        assert values.dtype == second[name].dtype
        assert values.tobytes() == second[name].tobytes()
        assert values.any()
    close(group)


def test_a_vector_without_gradient_keeps_its_memory() -> None:
    group = sessions(ranks=2, model=THIN)
    train(group, range(2), buckets=(THIN,))
    before = [memories(own)["worker/bias/0"] for own in group]

    def work(own: Session) -> None:
        parts = [gradient(own.comm.rank, 2, each.name) for each in THIN]
        parts[1][...] = 0
        unused = {"bias"} if own.comm.rank == 1 else set()
        values = ArrayValues(np.concatenate(parts))
        own.submit(job := Job(0, values, THIN, is_last=True, unused=unused))
        own.wait(job)

    everyone(group, work)
    after = [memories(own)["worker/bias/0"] for own in group]
    assert before[1].any()
    assert after[1].tobytes() == before[1].tobytes()
    assert after[0].tobytes() != before[0].tobytes()
    close(group)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_values_of_other_types_are_averaged_in_place(dtype: Any) -> None:
    group = sessions()
    means = train(group, range(2), dtype=dtype, buckets=BUCKETS[1])
    assert len({bits(each) for each in means}) == 1
    assert all(each[name].dtype == dtype for each in means[0] for name in each)
    mean = np.mean([gradient(rank, 0, "bias").astype(dtype) for rank in range(3)], axis=0)
    lost = means[0][0]["bias"].astype(np.float64) - mean
    assert 0 < (lost**2).sum() < 0.3 * (mean.astype(np.float64) ** 2).sum()
    close(group)


@pytest.mark.parametrize("ranks", [2, 5])
@pytest.mark.parametrize("buckets", BUCKETS, ids=["one", "three", "all"])
def test_a_session_goes_on_bit_for_bit(tmp_path: Path, ranks: int, buckets: Any) -> None:
    pytest.importorskip("safetensors")
    old, new = sessions(ranks=ranks), sessions(ranks=ranks)
    train(old, range(3))
    everyone(old, lambda own: own.checkpoint.save(tmp_path))
    everyone(new, lambda own: own.checkpoint.load(tmp_path))
    wanted, found = train(old, range(3, 6)), train(new, range(3, 6), buckets=buckets)
    assert [bits(each) for each in wanted] == [bits(each) for each in found]
    close(old, new)


def test_sharing_out_anew_keeps_the_sum_of_errors_and_the_basis() -> None:
    old, new = sessions(ranks=4), sessions(ranks=3)
    train(old, range(3))
    saved = [own.checkpoint.state_dict() for own in old]
    everyone(new, lambda own: own.checkpoint.load_state_dict(saved, reshard=True))
    before, after = ([memories(own) for own in group] for group in (old, new))
    for name in FACTORED:
        key = f"{WORKER}/{name}/0"
        sums = [np.sum([own[key] for own in each], axis=0) for each in (before, after)]
        np.testing.assert_allclose(sums[0], sums[1], atol=1e-4)
        assert np.abs(sums[0]).max() > 0.1
        key = f"{BASIS}/{name}/0"
        assert {own[key].tobytes() for own in (*before, *after)} == {before[0][key].tobytes()}
    assert len({bits(each) for each in train(new, range(3, 5))}) == 1
    close(old, new)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_skipped_step_leaves_no_trace(bad: float) -> None:
    group = sessions(nonfinite="skip")
    train(group, range(2))
    before = [memories(own) for own in group]
    means = train(group, range(2, 3), bad=bad)
    assert not any(each.any() for own in means for each in own[0].values())
    assert all(own.accounting.skipped for own in group)
    for own, kept in zip(group, before, strict=True):
        now = memories(own)
        assert now.keys() == kept.keys()
        assert all(now[key].tobytes() == kept[key].tobytes() for key in kept)
    close(group)


@pytest.mark.parametrize("seed", range(4))
def test_infinity_at_any_step_costs_that_step_only(seed: int) -> None:
    """The steps after it have the bits of a run that did nothing in its place."""
    sick = int(np.random.default_rng(seed).integers(8))
    group, other = sessions(nonfinite="skip"), sessions(nonfinite="skip")
    everyone([*group, *other], Session.start)
    before, wanted = (train(each, range(sick), buckets=BUCKETS[1]) for each in (group, other))
    assert [bits(each) for each in before] == [bits(each) for each in wanted]
    train(group, range(sick, sick + 1), buckets=BUCKETS[1], bad=np.inf)
    assert all(own.accounting.skipped for own in group)
    for own in other:
        own.progress.step += 1
    after, wanted = (train(each, range(sick + 1, 9), buckets=BUCKETS[1]) for each in (group, other))
    assert [bits(each) for each in after] == [bits(each) for each in wanted]
    for own, theirs in zip(group, other, strict=True):
        kept, same = memories(own), memories(theirs)
        assert kept.keys() == same.keys()
        assert all(kept[key].tobytes() == same[key].tobytes() for key in kept)
    close(group, other)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_reaches_all_ranks(bad: float) -> None:
    group = sessions()
    train(group, range(1))
    for (means,) in train(group, range(1, 2), bad=bad):
        assert not np.isfinite(means["conv"]).any()
        assert np.isfinite(means["tall"]).all()
    assert len({bits(each) for each in train(group, range(2, 4))}) == 1
    close(group)


def test_reports_name_the_stage_and_count_real_bytes() -> None:
    group = sessions(PRESETS[LOW_RANK].operator, ranks=2, model=(TALL, BIAS))
    sent = np.zeros(2, int)
    for comm in {id(own.comm): own.comm for own in group}.values():
        _count(comm, sent)
    everyone(group, Session.start)
    sent[:] = 0
    buckets = ((TALL, BIAS),)
    train(group, range(4), buckets=buckets)
    report = Report(**group[0].figures())
    assert report.payload_bytes + report.header_bytes == sent[0]
    assert report.uplink == report.downlink == "low-rank|sparse-dithering"
    assert report.factored_elements == TALL.size
    assert report.compressed_elements == TALL.size + BIAS.size
    line = (
        f"factors     {TALL.size:,} elements travel as factors of matrices, in one hop to each rank"
    )
    assert line in str(report)
    assert report.memory_bytes == 2 * 4 * (TALL.size + 50 * 8 + BIAS.size)
    assert 0 < report.payload_bytes < report.plain_bytes / 10
    close(group)


def _count(comm: Any, sent: np.ndarray) -> None:
    """Count the bytes that a rank sends to others."""
    start = comm.start

    def counting(*mail: Any, **options: Any) -> Any:
        for outgoing, _ in mail:
            others = (each for rank, each in enumerate(outgoing) if rank != comm.rank)
            sent[comm.rank] += sum(each.size for each in others if each is not None)
        return start(*mail, **options)

    comm.start = counting


def test_ranks_with_other_ranks_of_factors_are_told() -> None:
    first, second = sessions(), sessions("low-rank:rank=4|sparse-dithering")
    group = [first[0], second[1], first[2]]
    comms = LocalComm.group(3, 10.0)
    group = [_with(own, comm) for own, comm in zip(group, comms, strict=True)]
    for error in everyone(group, lambda own: caught(own.start)):
        assert isinstance(error, DisagreementError)
        assert "low-rank:rank=3|sparse-dithering" in str(error)
        assert "low-rank:rank=4|sparse-dithering" in str(error)


def _with(own: Session, comm: Any) -> Session:
    return Session(comm, replace(own.routing, choices={}, sizes={}), own.options, AdapterParts())


@pytest.mark.parametrize("change", ["spec", "basis"])
def test_states_of_other_runs_are_refused(change: str) -> None:
    group = sessions(ranks=2)
    train(group, range(2))
    saved = [dict(own.checkpoint.state_dict()) for own in group]
    other = sessions("low-rank:rank=4|sparse-dithering" if change == "spec" else SPEC, ranks=2)
    if change == "basis":  # of a run with other gradients, whole and at the same step
        strange = sessions(ranks=2)
        train(strange, range(1))
        train(strange, range(3, 4))
        saved[1] = dict(strange[1].checkpoint.state_dict())
        close(strange)
    for error in everyone(
        other,
        lambda own: caught(lambda: own.checkpoint.load_state_dict(saved[own.comm.rank])),
    ):
        assert isinstance(error, DisagreementError), error
        if change == "spec":
            assert "it has uplink=low-rank:rank=3|" in str(error)
            assert "here is uplink=low-rank:rank=4|" in str(error)
    close(group)


@pytest.mark.parametrize("rank", [2, 4])
def test_states_of_another_rank_say_which_when_shared_out_anew(rank: int) -> None:
    group = sessions(ranks=2)
    train(group, range(2))
    saved = [own.checkpoint.state_dict() for own in group]
    other = sessions(f"low-rank:rank={rank}|sparse-dithering", ranks=3)
    hint = "the state is of low-rank:rank=3|sparse-dithering, this run of low-rank:rank="
    for error in everyone(
        other,
        lambda own: caught(lambda: own.checkpoint.load_state_dict(saved, reshard=True)),
    ):
        assert isinstance(error, DisagreementError), error
        assert f"{hint}{rank}|" in str(error)
        assert "go on with 'low-rank:rank=3|sparse-dithering'" in str(error)
    close(group)


WIDER, HUGE = ModelParameter("wider", (129, 128)), ModelParameter("huge", (400, 400))


@pytest.mark.parametrize(
    ("model", "policy", "words"),
    [
        ((WIDER, BIAS), None, r"20 · \(m \+ n\) < mn / 4; rank=16 fits wider$"),
        ((BIAS,), None, "say 'tiny', or name an operator$"),
        ((HUGE, BIAS), {"huge": "natural"}, "policy= says otherwise of every matrix that fits$"),
    ],
)
def test_a_model_without_factors_is_told_once_and_in_the_report(
    model: Sequence[ModelParameter], policy: Any, words: str
) -> None:
    group = sessions("low-rank:rank=20|natural", ranks=2, model=model, policy=policy)
    with pytest.warns(
        UserWarning, match=r"low-rank:rank=20\|natural sends nothing as factors.*" + words
    ) as told:
        everyone(group, Session.start)
    assert len(told) == 1
    report = Report(**group[0].figures())
    assert report.factored_elements == 0
    assert "factors     none: no tensor travels by low-rank:rank=20|natural" in str(report)
    close(group)


def test_the_users_policy_comes_first() -> None:
    chosen = Options(policy={"wide": "exact", "tall": "natural", "conv": PRESETS["tiny"].operator})
    routing = routes(SPEC, None, chosen, ModelParameters(PARAMETERS))
    assert not isinstance(routing, dict)
    assert not any(routing.is_factored(each) for each in PARAMETERS)
    assert routing.told(WIDE) == ("identity", "identity")
    assert routing.told(TALL) == ("natural", "natural")
    everything = Options(policy=lambda name, shape: None)
    routing = routes(SPEC, None, everything, ModelParameters(PARAMETERS))
    assert not isinstance(routing, dict)
    assert routing.told(SMALL) == (PRESETS["tiny"].operator,) * 2
    assert {each.name for each in PARAMETERS if routing.is_factored(each)} == FACTORED


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ((20, 54), True),
        ((20, 6, 3, 3), True),
        ((12, 13), False),
        ((24, 24), False),  # 3 * 48 * 4 is all of it
        ((25, 24), True),
        ((1080,), False),
        ((), False),
        ((0, 50), False),
        ((3, 9000), False),
    ],
)
def test_what_fits_is_four_times_smaller(shape: tuple[int, ...], fits: bool) -> None:
    own = low_rank(SPEC)
    assert isinstance(own, LowRank)
    assert own.fits(shape) == fits
    small = own.operator if Default()("x", shape) is not None else None
    assert FittingOrSmall(own)("x", shape) == (None if fits else small)


@pytest.mark.parametrize(
    ("uplink", "options", "words"),
    [
        (SPEC, {"feedback": "ef21"}, "chooses feedback itself"),
        (LOW_RANK, {"feedback": "ef14"}, "chooses feedback itself"),
        (SPEC, {"collective": "star"}, "exchanges of its own"),
        (SPEC, {"across": [0]}, "exchanges of its own"),
        ("low-rank:rank=4", {}, "needs an operator after it"),
        ("low-rank:rank=0|natural", {}, "rank must be from 1 to 128"),
        ("low-rank:rank=129|natural", {}, "rank must be from 1 to 128"),
        ("low-rank:ranks=4|natural", {}, "unknown parameter 'ranks'"),
        ("low-rank|low-rank|natural", {}, "stands once in a spec"),
        ("top-k|low-rank|natural", {}, r"stands first.*as the uplink of fewbits\.ddp\.attach"),
        ("natural", {"policy": {"wide": SPEC}}, "a policy cannot say.*pass it as the uplink"),
        ("natural", {"policy": {"wide": LOW_RANK}}, "a policy cannot say.*pass it as the uplink"),
        (SPEC, {"policy": {"wide": "low-rank:rank=4"}}, "a policy cannot say"),
        ("low-rank|nothing", {}, "unknown operator"),
    ],
)
def test_what_makes_no_sense_is_refused(uplink: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        routes(uplink, None, Options(**options), ModelParameters(PARAMETERS))


def test_another_downlink_is_refused() -> None:
    with pytest.raises(SpecError, match="chooses downlink itself"):
        routes(SPEC, "natural", Options(), ModelParameters(PARAMETERS))


@pytest.mark.parametrize("spec", [SPEC, LOW_RANK])
def test_shards_and_rounds_have_no_whole_gradients(spec: str) -> None:
    with pytest.raises(SpecError, match=r"only fewbits\.ddp has"):
        route(spec, None, Options(), ModelParameters(PARAMETERS))


@pytest.mark.parametrize("spec", [SPEC, LOW_RANK])
def test_one_array_is_not_compressed_by_it(spec: str) -> None:
    with pytest.raises(SpecError, match=r"makes factors.*uplink of fewbits\.ddp\.attach"):
        fewbits.compress(np.zeros((40, 50), np.float32), spec)


def test_a_device_is_refused() -> None:
    group = sessions(device="interpreted")
    for error in everyone(group, lambda own: caught(own.start)):
        assert isinstance(error, SpecError)
        assert "staged=True" in str(error)


def test_spelling() -> None:
    assert str(low_rank("low-rank:rank=8 | natural:coder=packed")) == "low-rank|natural"
    assert low_rank("natural") is None
    assert low_rank(fewbits.operator("natural")) is None
