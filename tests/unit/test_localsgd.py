"""LocalSGD on ranks that are threads: what is computed, bit for bit, and what is refused."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fewbits import DisagreementError, SpecError
from fewbits.localsgd.outer import outer as named_outer

torch = pytest.importorskip("torch")
localsgd = pytest.importorskip("fewbits.localsgd")

# Models are small here and go exact, of which `attach` warns.
pytestmark = pytest.mark.filterwarnings("ignore:0 % of .* values are compressed:UserWarning")
RANKS, H = 3, 4


@pytest.fixture
def locals_() -> Iterator[Callable[..., Any]]:
    """Ranks of LocalSGD in this process, and their models."""
    simulated, made = pytest.importorskip("fewbits_lab.training.simulated"), []

    def make(build: Callable[[], Any], operator: str = "identity", **options: Any) -> Any:
        nets = []
        for rank in range(RANKS):
            torch.manual_seed(rank)  # attaching gives all of them rank 0's parameters
            nets.append(build())
        made.append(simulated.Locals(nets, operator, **{"local_steps": H} | options))
        return made[-1], nets

    yield make
    for each in made:
        each.close()


def linear(dtype: str = "float32") -> Any:
    return torch.nn.Linear(33, 7).to(getattr(torch, dtype))


def change(net: Any, rank: int, step: int) -> None:
    """A made-up local step."""
    source = np.random.default_rng([rank, step])
    with torch.no_grad():
        for own in net.parameters():
            own -= torch.from_numpy(0.1 * source.standard_normal(own.shape)).to(own.dtype)


def flat(net: Any, dtype: type = np.float32) -> np.ndarray:
    return torch.cat([own.detach().reshape(-1) for own in net.parameters()]).to(
        torch.float64 if dtype is np.float64 else torch.float32
    ).numpy().copy()  # fmt: skip


def mean(vectors: list[np.ndarray]) -> np.ndarray:
    """In rank order, in the vectors' precision."""
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total = total + vector
    return total / total.dtype.type(len(vectors))


@pytest.mark.parametrize("spec", ["sgd", "nesterov", "sgd:lr=0.5"])
@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
def test_an_outer_step_is_its_formula_bit_for_bit(locals_: Any, spec: str, collective: str) -> None:
    ranks, nets = locals_(linear, outer=spec, collective=collective)
    rule, start = named_outer(spec), flat(nets[0])
    momentum = np.zeros_like(start) if rule.has_momentum else None
    assert all(np.array_equal(flat(net), start) for net in nets)
    for step in range(3 * H):
        for rank, net in enumerate(nets):
            change(net, rank, step)
        before = [flat(net) for net in nets]
        assert ranks.step() is ((step + 1) % H == 0)
        if (step + 1) % H:
            assert all(
                np.array_equal(flat(net), own) for net, own in zip(nets, before, strict=True)
            )
            continue
        rule.apply(start, mean([start - own for own in before]), momentum)
        assert all(np.array_equal(flat(net), start) for net in nets)


def test_at_a_rate_of_one_sgd_averages_the_parameters(locals_: Any) -> None:
    ranks, nets = locals_(lambda: linear("float64"))
    for rank, net in enumerate(nets):
        change(net, rank, 0)
    ranks.step()
    average = np.mean([flat(net, np.float64) for net in nets], axis=0)
    before = flat(nets[0], np.float64)
    ranks.sync()
    # Three roundings of values below 2.
    assert np.abs(flat(nets[0], np.float64) - average).max() < 1e-15
    assert not np.array_equal(flat(nets[0], np.float64), before)


@pytest.mark.parametrize("spec", ["sgd", "nesterov"])
def test_overlap_goes_on_from_the_common_parameters_and_its_own_last_change(
    locals_: Any, spec: str
) -> None:
    ranks, nets = locals_(linear, outer=spec, overlap=True)
    rule, start = named_outer(spec), flat(nets[0])
    momentum = np.zeros_like(start) if rule.has_momentum else None
    origins, under_way = [start.copy() for _ in nets], None
    for step in range(4 * H + 1):
        for rank, net in enumerate(nets):
            change(net, rank, step)
        here = [flat(net) for net in nets]
        if ranks.step():
            if under_way is not None:
                rule.apply(start, under_way, momentum)
            changes = [origin - own for origin, own in zip(origins, here, strict=True)]
            origins, under_way = [start - own for own in changes], mean(changes)
            for net, origin in zip(nets, origins, strict=True):
                assert np.array_equal(flat(net), origin)
    rule.apply(start, under_way, momentum)
    rule.apply(start, mean([a - flat(net) for a, net in zip(origins, nets, strict=True)]), momentum)
    ranks.sync()
    assert all(np.array_equal(flat(net), start) for net in nets)
    ranks.sync()  # nothing to do
    assert ranks.reports()[0].steps == 5


@pytest.mark.parametrize("overlap", [False, True])
def test_compression_changes_the_mean_by_no_more_than_its_bound(
    locals_: Any, overlap: bool
) -> None:
    """One hop of `natural`, gather: the mean of RANKS vectors, each with omega = 1/8."""

    def build() -> Any:
        return torch.nn.Linear(300, 100)

    options = {"overlap": overlap, "collective": "gather"}
    exact, plain = locals_(build, **options)
    ranks, nets = locals_(build, "natural", **options)
    for step in range(H):
        for rank in range(RANKS):
            change(plain[rank], rank, step)
            change(nets[rank], rank, step)
        exact.step()
        ranks.step()
    exact.sync()
    ranks.sync()
    assert len({flat(net).tobytes() for net in nets}) == 1
    error = np.sum((flat(nets[0]) - flat(plain[0])) ** 2, dtype=np.float64)
    torch.manual_seed(0)
    start = flat(build())
    changes = [np.sum(0.04 * H / 4 * np.ones(start.size)) for _ in range(RANKS)]
    bound = sum(changes) / 8 / RANKS**2
    # Sums of 30,100 values: the mean error of natural on Gaussian values is 0.65 of the bound.
    assert 0.2 * bound < error < bound
    report = ranks.reports()[0]
    assert report.exact == {"one-dimensional": 100}
    assert report.compressed_elements == 30_000


class Normed(torch.nn.Module):  # type: ignore[name-defined]
    """Running statistics, an integer count, and a mask that must not be averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(5)
        self.register_buffer("mask", torch.full((3,), -torch.inf))
        self.register_buffer("own", torch.randn(4))


@pytest.mark.parametrize("overlap", [False, True])
def test_running_statistics_are_averaged_exactly_and_other_buffers_are_left(
    locals_: Any, overlap: bool
) -> None:
    ranks, nets = locals_(
        Normed, "natural", nonfinite="raise", overlap=overlap, policy=compress_all
    )
    own = [net.own.clone() for net in nets]
    assert not torch.equal(own[0], own[1])
    for step in range(H - 1):
        for rank, net in enumerate(nets):
            change(net, rank, step)
            net.norm(torch.randn(8, 5, generator=torch.Generator().manual_seed(rank)) + rank)
        ranks.step()
    nets[1].norm.running_mean = nets[1].norm.running_mean.clone()  # modules may replace them
    stats = [net.norm.running_mean.numpy().copy() for net in nets]
    variances = [net.norm.running_var.numpy().copy() for net in nets]
    ranks.sync()
    for rank, net in enumerate(nets):
        assert np.array_equal(net.norm.running_mean.numpy(), mean(stats))
        assert np.array_equal(net.norm.running_var.numpy(), mean(variances))
        assert torch.equal(net.own, own[rank])
        assert bool(net.mask.isneginf().all())
        assert int(net.norm.num_batches_tracked) == H - 1
    assert ranks.reports()[0].exact == {"averaged buffers": 10}


def compress_all(name: str, shape: tuple[int, ...]) -> None:
    """Every tensor."""


def test_with_overlap_statistics_come_a_round_later(locals_: Any) -> None:
    ranks, nets = locals_(Normed, overlap=True)
    rounds = []
    for number in range(2):
        for rank, net in enumerate(nets):
            net.norm.running_mean += rank + number
        rounds.append([net.norm.running_mean.numpy().copy() for net in nets])
        for _ in range(H):
            ranks.step()
    assert all(np.array_equal(net.norm.running_mean.numpy(), mean(rounds[0])) for net in nets)
    ranks.sync()
    assert all(np.array_equal(net.norm.running_mean.numpy(), mean(rounds[1])) for net in nets)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_round_that_is_not_finite_is_thrown_away_by_all(locals_: Any, overlap: bool) -> None:
    ranks, nets = locals_(linear, "natural", nonfinite="skip", outer="nesterov", overlap=overlap)
    start, seen = flat(nets[0]), []
    for step in range(6 * H):
        for rank, net in enumerate(nets):
            change(net, rank, step)
        if step == H + 1:
            nets[1].bias.data[2] = torch.nan
        if ranks.step():
            seen.append((ranks.sides[0].skipped, np.array_equal(flat(nets[0]), start)))
            assert len({side.skipped for side in ranks.sides}) == 1
            if not overlap:
                start = flat(nets[0])
    if overlap:  # the second round is found to be sick at the end of the third, which goes with it
        assert [skipped for skipped, _ in seen] == [False, False, True, False, False, False]
    else:
        assert seen == [(False, False), (True, True), *[(False, False)] * 4]
    ranks.sync()
    assert len({flat(net).tobytes() for net in nets}) == 1
    assert np.isfinite(flat(nets[0])).all()
    assert ranks.reports()[0].skipped_steps == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_outer_steps_of_16_bit_parameters_are_taken_in_float32(locals_: Any, dtype: str) -> None:
    ranks, nets = locals_(lambda: linear(dtype), outer="sgd:lr=0.001")
    start = flat(nets[0])
    common = start.copy()
    for step in range(20 * H):
        for rank, net in enumerate(nets):
            change(net, rank, step % H)
        before = [flat(net) for net in nets]
        if ranks.step():
            change_ = mean([common - own for own in before])
            common = common - np.float32(0.001) * change_
            assert np.array_equal(flat(nets[0]), rounded(common, dtype))
    saved = ranks.sides[0].state_dict()["own/start/float32"]
    assert np.array_equal(saved, common)
    assert not np.array_equal(saved, rounded(saved, dtype))


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    return torch.from_numpy(values.copy()).to(getattr(torch, dtype)).float().numpy()


def test_frozen_parameters_are_left_to_their_rank(locals_: Any) -> None:
    def build() -> Any:
        net = linear()
        net.bias.requires_grad_(False)
        return net

    ranks, nets = locals_(build)
    own = [net.bias.clone() for net in nets]
    for _ in range(H):
        for rank, net in enumerate(nets):
            with torch.no_grad():
                net.weight += rank
        ranks.step()
    assert all(torch.equal(net.weight, nets[0].weight) for net in nets)
    assert all(torch.equal(net.bias, each) for net, each in zip(nets, own, strict=True))


def test_a_state_is_taken_where_it_belongs_and_refused_elsewhere(locals_: Any) -> None:
    ranks, nets = locals_(linear, "natural", outer="nesterov", feedback="ef14")
    for step in range(H):
        for rank, net in enumerate(nets):
            change(net, rank, step)
        ranks.step()
    saved = [side.state_dict() for side in ranks.sides]
    assert {key for key in saved[0] if key.startswith("own/")} == {
        "own/round", "own/start/float32", "own/momentum/float32"
    }  # fmt: skip
    assert np.array_equal(saved[0]["own/start/float32"], flat(nets[0]))
    assert np.abs(saved[0]["own/momentum/float32"]).max() > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"local_steps": 0}, "local_steps"),
        ({"local_steps": 2.0}, "local_steps"),
        ({"outer": "adam"}, "sgd or nesterov"),
        ({"collective": "ring"}, "collective"),
        ({"collective": "switch"}, "fewbits.ddp"),
        ({"average_buffers": "*running_mean"}, "list of patterns"),
        ({"nonfinite": "ignore"}, "nonfinite"),
        ({"timeout": 0}, "timeout"),
        ({"threads": 0}, "threads"),
        ({"uplink": "auto"}, "name an operator"),
        ({"uplink": "naturel"}, "naturel"),
        ({"feedback": "ef14:momentum=0.9", "outer": "nesterov"}, "take outer='sgd'"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_rank_is_met(
    options: dict[str, Any], words: str
) -> None:
    given = {"uplink": "natural", "local_steps": 4} | options
    with pytest.raises(SpecError, match=words):
        localsgd.LocalSGD(linear(), given.pop("uplink"), **given)


def test_sparse_loco_is_a_preset_whose_memories_take_the_outer_momentum() -> None:
    local = localsgd.LocalSGD(linear(), "sparse-loco", local_steps=4, outer="sgd")
    routing = local.session.routing
    assert routing.specs[0].startswith("top-k:fraction=0.03|sparse-dithering:")
    assert str(routing.feedback) == "ef14:decay=0.95"
    with_momentum = localsgd.LocalSGD(
        linear(), "top-k|natural", local_steps=4, outer="sgd", feedback="dgc"
    )
    assert with_momentum.session.routing.feedback.has_momentum


def test_models_that_cannot_be_averaged_are_refused() -> None:
    frozen = linear().requires_grad_(False)
    with pytest.raises(SpecError, match="no parameters"):
        localsgd.LocalSGD(frozen, "natural", local_steps=4)
    net = linear()
    net.phase = torch.nn.Parameter(torch.zeros(3, dtype=torch.float8_e4m3fn))
    with pytest.raises(SpecError, match="phase is torch"):
        localsgd.LocalSGD(net, "natural", local_steps=4)
    with pytest.raises(SpecError, match="list"):
        localsgd.LocalSGD([], "natural", local_steps=4)


def wrong_arrays(own: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The adapter's own arrays, each spoiled in a way that a checksum would not notice."""
    counts = own["own/round"]
    for value in ([-1, 0, 0, 0], [2, 3, 0, 0], [2, 0, 2, 0], [2, 0, 0, -1], [5, -1, 0, 0]):
        yield own | {"own/round": np.array(value, np.int64)}
    yield own | {"own/round": counts.astype(np.float64)}
    yield own | {"own/other": counts}
    for key in own:
        if key.startswith("own/") and key != "own/round":
            array = own[key].copy()
            array[3] = np.nan
            yield own | {key: array}
            yield own | {key: own[key][:-1]}
            yield own | {key: own[key].astype(np.float64)}
            yield {name: own[name] for name in own if name != key}


@pytest.mark.parametrize("overlap", [True, False])
def test_wrong_arrays_with_the_right_checksum_are_refused(locals_: Any, overlap: bool) -> None:
    from fewbits.session import state as states

    ranks, nets = locals_(linear, outer="nesterov", overlap=overlap)
    for step in range(H + 1):
        for rank, net in enumerate(nets):
            change(net, rank, step)
        ranks.step()
    first = ranks.sides[0]
    saved = dict(first.state_dict())
    checkpoint = first.session.checkpoint
    arrays = {key: array for key, array in saved.items() if key != "fewbits"}
    assert checkpoint._loaded(states.pack(checkpoint.origin(), 3, arrays), False)
    found = 0
    for wrong in wrong_arrays(arrays):
        with pytest.raises(DisagreementError):
            checkpoint._loaded(states.pack(checkpoint.origin(), 3, wrong), False)
        found += 1
    assert found >= 15
    assert {key: own.tobytes() for key, own in first.state_dict().items()} == {
        key: own.tobytes() for key, own in saved.items()
    }
