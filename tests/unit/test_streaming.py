"""Fragments of LocalSGD: formulas bit for bit, bytes of a step, states, and wrong options."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fewbits import DisagreementError, SpecError
from fewbits.localsgd.outer import outer as named_outer

torch = pytest.importorskip("torch")
localsgd = pytest.importorskip("fewbits.localsgd")

pytestmark = pytest.mark.filterwarnings("ignore:0 % of .* values are compressed:UserWarning")
RANKS, H, P = 3, 8, 4


@pytest.fixture
def locals_() -> Iterator[Callable[..., Any]]:
    """Ranks of LocalSGD in this process, and their models."""
    simulated, made = pytest.importorskip("fewbits_lab.training.simulated"), []

    def make(operator: str = "identity", build: Callable[[], Any] | None = None, **options: Any):
        nets = []
        for rank in range(RANKS):
            torch.manual_seed(rank)
            nets.append((build or stack)())
        wanted = {"local_steps": H, "fragments": P, "outer": "nesterov"} | options
        made.append(simulated.Locals(nets, operator, **wanted))
        return made[-1], nets

    yield make
    for each in made:
        each.close()


def stack() -> Any:
    """Parameters that do not end where fragments do."""
    return torch.nn.Sequential(torch.nn.Linear(9, 31), torch.nn.Linear(31, 7))


def change(nets: list[Any], step: int) -> None:
    """A made-up local step of every rank."""
    for rank, net in enumerate(nets):
        source = np.random.default_rng([rank, step])
        with torch.no_grad():
            for own in net.parameters():
                own -= torch.from_numpy(0.1 * source.standard_normal(own.shape)).to(own.dtype)


def flat(net: Any) -> Any:
    return torch.cat([own.detach().reshape(-1) for own in net.parameters()]).clone()


def common(side: Any) -> bytes:
    saved = side.state_dict()
    return b"".join(saved[f"own/{key}/float32"].tobytes() for key in ("start", "momentum"))


@pytest.mark.parametrize(("delay", "blend"), [(0, 0.0), (1, 0.0), (2, 0.5), (2, 0.25)])
def test_fragments_are_sent_and_mixed_in_when_they_should_bit_for_bit(
    locals_: Any, delay: int, blend: float
) -> None:
    ranks, nets = locals_(delay=delay, blend=blend)
    rule, start = named_outer("nesterov"), flat(nets[0])
    momentum, under_way = torch.zeros_like(start), list[tuple[slice, Any]]()
    places = [places[0][1] for places in ranks.sides[0]._standing.shares]
    assert [places[0].start, places[-1].stop] == [0, start.numel()]
    assert all(a.stop == b.start for a, b in pairwise(places))
    assert len({place.stop % 31 for place in places}) > 1  # within parameters, too
    models = [flat(net) for net in nets]

    def mix() -> None:
        place, mean = under_way.pop()
        rule.apply(start[place].numpy(), mean, momentum[place].numpy())
        for own in models:
            kept = own[place]
            own[place] = torch.lerp(start[place], kept, blend) if blend else start[place]

    sent_at = 0
    for step in range(1, 3 * H + 3):
        for own, net in zip(models, nets, strict=True):
            assert torch.equal(own, flat(net)), step
        change(nets, step)
        models = [flat(net) for net in nets]
        exchanges = ranks.step()
        if under_way and step - sent_at == delay:
            mix()
        assert exchanges is (step % (H // P) == 0)
        if exchanges:
            place, sent_at = places[(step // (H // P) - 1) % P], step
            total = np.zeros(place.stop - place.start, np.float32)
            for own in models:
                total += (start[place] - own[place]).numpy()
            under_way.append((place, total / np.float32(RANKS)))
            if not delay:
                mix()
    assert ranks.reports()[0].fragments == P
    ranks.sync()
    assert len({flat(net).numpy().tobytes() for net in nets}) == 1
    steps = ranks.reports()[0].steps
    ranks.sync()  # nothing to do
    assert ranks.reports()[0].steps == steps == 3 * P + 2
    assert len({common(side) for side in ranks.sides}) == 1


def test_no_step_sends_much_more_than_its_share(locals_: Any) -> None:
    """Half of the matrix's values are in one parameter, and one per cent goes exact."""

    def build() -> Any:
        return torch.nn.Sequential(torch.nn.Linear(300, 700), torch.nn.Linear(700, 300))

    peaks = []
    for fragments in (1, P):
        ranks, nets = locals_("natural:coder=rans", build, fragments=fragments)
        before, steps = 0.0, []
        for step in range(1, H + 1):
            change(nets, step)
            ranks.step()
            now = np.mean([own.payload_bytes + own.header_bytes for own in ranks.reports()])
            steps.append(now - before)
            before = now
        peaks.append(max(steps))
        assert np.count_nonzero(steps) == fragments
        first = ranks.reports()[0]
        assert first.exact == {"one-dimensional": 1000}
        assert first.elements == 421_000
        assert first.every_step_bytes == 2 * (RANKS - 1) * 4 * first.elements // RANKS * H
        assert f"in {fragments} " in str(first)
    assert peaks[1] <= 0.3 * peaks[0]


@pytest.mark.parametrize("when", [1, 2, 5, H])
def test_a_state_of_any_step_goes_on_with_the_same_bits(locals_: Any, when: int) -> None:
    options = {"delay": 2, "blend": 0.5, "feedback": "ef14", "policy": compress_all}
    ranks, nets = locals_("natural", **options)
    twins, copies = locals_("natural", **options)
    for step in range(when + 1):
        change(nets, step)
        ranks.step()
    saved = [
        (side.state_dict(), net.state_dict()) for side, net in zip(ranks.sides, nets, strict=True)
    ]
    for copy, (_, own) in zip(copies, saved, strict=True):
        copy.load_state_dict(own)
    list(
        twins._threads.map(
            lambda pair: pair[0].load_state_dict(pair[1][0]), zip(twins.sides, saved, strict=True)
        )
    )
    for step in range(when + 1, when + 2 * H):
        for each, own in ((ranks, nets), (twins, copies)):
            change(own, step)
            each.step()
        assert all(torch.equal(flat(a), flat(b)) for a, b in zip(nets, copies, strict=True))
    for each in (ranks, twins):
        each.sync()
    assert common(ranks.sides[0]) == common(twins.sides[1])
    first = ranks.sides[0].state_dict(), twins.sides[0].state_dict()
    assert all(np.array_equal(first[0][key], first[1][key]) for key in first[0])


def compress_all(name: str, shape: tuple[int, ...]) -> None:
    """Every tensor."""


@pytest.mark.parametrize("delay", [0, 1])
def test_a_fragment_that_is_not_finite_is_thrown_away_by_all(locals_: Any, delay: int) -> None:
    ranks, nets = locals_("natural", nonfinite="skip", delay=delay)
    for step in range(1, 3 * H):
        change(nets, step)
        if step == H + 1:
            nets[1][0].weight.data[0, 2] = torch.nan
        before, was = common(ranks.sides[0]), ranks.sides[0].skipped
        ranks.step()
        if ranks.sides[0].skipped and not was:
            assert common(ranks.sides[0]) == before
            assert len({flat(net).numpy().tobytes() for net in nets}) == 1  # the common ones
    ranks.sync()
    assert ranks.reports()[0].skipped_steps == 1
    assert np.isfinite(flat(nets[0]).numpy()).all()
    assert len({flat(net).numpy().tobytes() for net in nets}) == 1


def test_a_state_is_refused_by_another_arrangement_and_in_the_middle(locals_: Any) -> None:
    ranks, nets = locals_(delay=1)
    for step in range(H + 2):
        change(nets, step)
        ranks.step()
    side = ranks.sides[0]
    own = side.session.checkpoint._adapter
    arrays = own.arrays()
    assert arrays["pending/float32"].size < arrays["start/float32"].size / 2
    own.check([arrays], False)
    with pytest.raises(DisagreementError, match="call sync"):
        own.check([arrays], True)
    for counts in ([99, 0, 0], [0, 99, 0], [0, 0, P], [0, 0, -2]):
        with pytest.raises(DisagreementError, match="fragment"):
            own.check([arrays | {"streaming": np.array(counts, np.int64)}], False)
    with pytest.raises(DisagreementError, match="without fragments"):
        own.check([{k: v for k, v in arrays.items() if k != "streaming"}], False)
    whole, _ = locals_(fragments=1)
    with pytest.raises(DisagreementError, match="this run needs"):
        whole.sides[0].session.checkpoint._adapter.check([arrays], False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fragments": 0}, "fragments must be"),
        ({"fragments": H + 1}, "fragments must be"),
        ({"fragments": 2.0}, "fragments must be"),
        ({"fragments": 4, "delay": 3}, "2 steps between"),
        ({"delay": -1}, "delay must be"),
        ({"blend": 1}, "blend must be"),
        ({"blend": "half"}, "blend must be"),
        ({"fragments": 2, "overlap": True}, "pass delay="),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        localsgd.LocalSGD(stack(), "natural", **{"local_steps": H} | options)


def test_a_model_of_fewer_rows_than_fragments_is_refused() -> None:
    with pytest.raises(SpecError, match="too few rows"):
        localsgd.LocalSGD(torch.nn.Linear(9, 2, bias=False), "natural", local_steps=8, fragments=3)
