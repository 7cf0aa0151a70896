"""States whose checksum is right and whose content is not: refused on all ranks, nothing loaded."""

import json
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fewbits import DisagreementError
from fewbits.backend import crc32c
from fewbits.collectives.comm import LocalComm
from fewbits.session import ModelParameter, ModelParameters, Options, Session
from fewbits.session.defaults import routes
from fewbits.session.memories import MemoryShapes
from unit.session.test_session import PARAMETERS, caught, everyone, sessions, step

State = dict[str, np.ndarray]
RANKS = 2
METHODS = ["ef14", "ef14:momentum=0.9", "ef21", "diana", "ef-bv"]


def sealed(state: State, about: Any) -> State:
    """The state with what it tells of itself, and the checksum of that."""
    arrays = {key: array for key, array in state.items() if key != "fewbits"}
    if isinstance(about, dict):
        crc = crc32c(np.frombuffer(json.dumps(about).encode(), np.uint8))
        for key, array in sorted(arrays.items()):
            told = f"{key} {array.dtype} {array.shape}".encode()
            crc = crc32c(np.ascontiguousarray(array), crc32c(np.frombuffer(told, np.uint8), crc))
        about = about | {"crc": crc}
    return {"fewbits": np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays}


def opened(state: State) -> tuple[State, dict[str, Any]]:
    about = json.loads(state["fewbits"].tobytes())
    del about["crc"]
    return dict(state), about


def group(feedback: str = "ef21", ranks: int = RANKS, **options: Any) -> list[Session]:
    return sessions("natural", ranks=ranks, feedback=feedback, **options)


def trained(own: list[Session], first: int = 0, last: int = 2) -> list[list[bytes]]:
    return [
        [mean.tobytes() for mean in everyone(own, lambda each: step(each, number))]  # noqa: B023
        for number in range(first, last)
    ]


def saved(own: list[Session]) -> list[State]:
    return everyone(own, lambda each: dict(each.checkpoint.state_dict()))


def loaded(own: list[Session], states: list[Any], **options: Any) -> list[Exception | None]:
    def load(each: Session) -> Exception | None:
        given = states if options else states[each.comm.rank]
        return caught(lambda: each.checkpoint.load_state_dict(given, **options))

    return everyone(own, load)


NUMBERS = [-1, 2**70, 1.0, True, False, None, "3", [], {}, float("nan"), -(2**63), 2**63]
WORDS = [None, 3, 1.5, True, [], {}, ["natural"], "", "other"]


@dataclass
class Mutation:
    """A state, what it tells of itself, one of its memories, and ways to spoil one of these."""

    state: State
    about: dict[str, Any]
    key: str
    source: random.Random

    def drop(self) -> None:
        del self.state[self.key]

    def rename(self) -> None:
        other = self.key.replace("first", "third").replace("second", "fourth")
        self.state[self.source.choice([f"{self.key}x", f"other/{self.key}", other])] = self.array
        if self.source.random() < 0.5:
            self.drop()

    def poison(self) -> None:
        array = self.array.copy()
        array.flat[self.source.randrange(array.size)] = self.source.choice(
            [np.nan, np.inf, -np.inf]
        )
        self.state[self.key] = array

    def retype(self) -> None:
        kinds = [np.float16, np.float64, np.int32, np.int64, np.uint8, np.bool_, ">f4", "c8", "U4"]
        self.state[self.key] = self.array.astype(self.source.choice(kinds))

    def reshape(self) -> None:
        own = self.array
        shapes = [own[:, :-1], own[:, :0], own.T, own[0], own[None], own[:0], np.ones((), "f4")]
        shapes += [np.concatenate([own, own], axis=axis) for axis in (0, 1)]
        self.state[self.key] = self.source.choice(shapes)

    def add(self) -> None:
        names = ["own/round", "own/x", "worker/first", "x", "", "worker/none/0", "worker/first/99"]
        self.state[self.source.choice(names)] = self.array

    def forget(self) -> None:
        del self.about[self.source.choice(list(self.about))]

    def tell_more(self) -> None:
        self.about[self.source.choice(["steps", "", "arrays"])] = 3

    def number(self) -> None:
        name = self.source.choice(["step", "rank", "ranks", "version"])
        wrong = [value for value in NUMBERS if value is True or value != self.about[name]]
        self.about[name] = self.source.choice(wrong)

    def word(self) -> None:
        name = self.source.choice(["feedback", "model", "plan", "configuration"])
        self.about[name] = self.source.choice([each for each in WORDS if each != self.about[name]])

    def absent(self) -> None:
        wrong = [None, 3, "all", {}, [3], [None], [[]], True]
        self.about["absent"] = self.source.choice(wrong)

    @property
    def array(self) -> np.ndarray:
        return self.state[self.key]


DEEDS = [
    deed for name, deed in vars(Mutation).items() if callable(deed) and not name.startswith("_")
]


def mutated(state: State, source: random.Random) -> State:
    """A change of what a state holds, which nobody would save, with its checksum."""
    content, about = opened(state)
    key = source.choice([key for key in state if key != "fewbits"])
    if source.random() < 0.05:
        wrong = [np.zeros(0, np.uint8), np.full(9, 200, np.uint8), np.full((2, 2), 1.5)]
        return content | {"fewbits": source.choice(wrong)}
    if source.random() < 0.05:
        return sealed(content, source.choice([[about], [], None, 3, "state"]))
    source.choice(DEEDS)(Mutation(content, about, key, source))
    return sealed(content, about)


@pytest.mark.parametrize("feedback", METHODS[:3])
@pytest.mark.parametrize("fresh", [True, False])
def test_nothing_wrong_is_loaded_and_training_goes_on_as_if_nobody_had_tried(
    feedback: str, fresh: bool
) -> None:
    source = random.Random(f"{feedback} {fresh}")
    old = group(feedback)
    trained(old)
    states = saved(old)
    new, same = group(feedback), group(feedback)
    if not fresh:
        assert trained(new) == trained(same)
    kept = saved(new)
    for number in range(50):
        odd = source.randrange(RANKS)
        wrong = [*states]
        wrong[odd] = mutated(states[odd], source)
        found = loaded(new, wrong)
        if fresh and None in found:  # float64 where nothing is known of the values yet
            assert all(type(e) is DisagreementError for e in first_step(feedback, wrong)), number
            new = group(feedback)
        else:
            assert all(type(error) is DisagreementError for error in found), (number, found)
            assert all("\n" not in str(error) for error in found)
    for now, then in zip(saved(new), kept, strict=True):
        assert {key: own.tobytes() for key, own in now.items()} == {
            key: own.tobytes() for key, own in then.items()
        }
    assert trained(new, 2, 4) == trained(same, 2, 4)
    assert loaded(new, states) == [None] * RANKS
    assert trained(new, 2, 4) == trained(old, 2, 4)


def first_step(feedback: str, states: list[State]) -> list[Exception | None]:
    """What the first step after such a load raises."""
    own = group(feedback)
    assert loaded(own, states) == [None] * RANKS
    return everyone(own, lambda each: caught(lambda: step(each, 2)))


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
@pytest.mark.parametrize("feedback", METHODS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_the_memories_that_a_rank_needs_are_those_that_it_has(
    collective: str, feedback: str, ranks: int
) -> None:
    own = group(feedback, ranks, collective=collective)
    trained(own)
    for rank, state in enumerate(saved(own)):
        shapes = MemoryShapes(own[0].routing, collective)
        has = {key: array.shape for key, array in state.items() if key != "fewbits"}
        assert shapes.needed(rank, ranks) == has
        assert has.items() <= shapes.possible(ranks).items()
        assert len(has) >= len(PARAMETERS)
        assert opened(state)[1]["absent"] == []


@pytest.mark.parametrize("collective", ["sharded", "star"])
def test_one_memory_less_is_refused_and_so_it_is_of_version_1(collective: str) -> None:
    own = group(collective=collective)
    trained(own)
    states = saved(own)
    for key in [key for key in states[0] if key != "fewbits"]:
        state, about = opened(states[0])
        del state[key]
        first = about | {"version": 1}
        del first["absent"]
        origin = own[0].checkpoint.origin(1)
        first |= {"plan": origin.plan, "configuration": origin.configuration}
        for told in (about, first):
            for error in loaded(own, [sealed(state, told), states[1]]):
                assert type(error) is DisagreementError
                assert f"lacks 1 memories, {key}" in str(error)


def test_what_was_not_there_when_a_state_was_saved_is_not_missed() -> None:
    before = group()
    everyone(before, Session.start)
    states = saved(before)
    assert len(opened(states[0])[1]["absent"]) >= len(PARAMETERS)
    new, same = group(), group()
    assert loaded(new, states) == [None] * RANKS
    assert trained(new) == trained(same)


def test_momentum_of_tensors_that_go_exact_is_saved_and_loaded() -> None:
    def make() -> list[Session]:
        chosen = Options(feedback="ef14:momentum=0.9")
        model = [*PARAMETERS[:1], ModelParameter("second", (700,))]
        return [
            Session(comm, routes("natural", None, chosen, ModelParameters(model)), chosen)
            for comm in LocalComm.group(RANKS, 10.0)
        ]

    old, new = make(), make()
    trained(old)
    states = saved(old)
    assert any(key.startswith("worker/second") for key in states[0])
    assert loaded(new, states) == [None] * RANKS
    assert trained(new, 2, 4) == trained(old, 2, 4)


def test_other_states_that_are_resharded_are_refused_as_well() -> None:
    old = group(ranks=3)
    trained(old)
    states = saved(old)
    source = random.Random(5)
    for _ in range(60):
        wrong = [*states]
        odd = source.randrange(3)
        wrong[odd] = mutated(states[odd], source)
        new = group()
        found = loaded(new, wrong, reshard=True)
        if found == [None] * RANKS:  # nothing was changed
            now, then = (opened(each) for each in (wrong[odd], states[odd]))
            assert now[0].keys() == then[0].keys()
            assert all(
                np.array_equal(now[0][key], then[0][key]) for key in now[0] if key != "fewbits"
            )
            assert now[1] == then[1]
            continue
        assert all(type(error) is DisagreementError for error in found), found
    new = group()
    assert loaded(new, states, reshard=True) == [None] * RANKS


@pytest.mark.parametrize("other", [{"feedback": "ef14"}, {"seed": 5}, {"collective": "star"}])
def test_states_of_two_runs_are_not_resharded_together(other: dict[str, Any]) -> None:
    one, two = group(ranks=3), group(ranks=3, **other)
    trained(one)
    trained(two)
    mixed = [saved(one)[0], saved(two)[1], saved(one)[2]]
    for error in loaded(group(), mixed, reshard=True):
        assert type(error) is DisagreementError
        assert "rank 1 has another" in str(error)


def test_numbers_that_are_no_bytes_are_no_state() -> None:
    for error in loaded(group(), [{"fewbits": [1000]}] * RANKS):
        assert type(error) is DisagreementError


@pytest.mark.parametrize("method", ["ef21", "diana", "ef-bv"])
def test_ranks_do_not_go_on_from_common_memories_of_different_runs(method: str) -> None:
    """Both runs have the same options and stand at the same step; their gradients differed."""
    one, two = group(method), group(method)
    trained(one)
    trained(two, 5, 7)
    states = [saved(one)[0], saved(two)[1]]
    new, fresh = group(method), group(method)
    for error in loaded(new, states):
        assert type(error) is DisagreementError
        assert "common memories" in str(error)
    assert trained(new) == trained(fresh), "nothing was loaded"
