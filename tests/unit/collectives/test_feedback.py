"""Feedback in every collective: the bits of the papers' formulas, on all ranks, however done."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
import pytest

import fewbits
from fewbits.collectives.payload import Unit
from fewbits.reference.formats import FLOAT32, FLOAT64, Format
from unit.collectives.courses import Course, Gradients, Memories, Simulation, reduced, values
from unit.collectives.local import COLLECTIVES, units

SIZES = (5, 33, 700, 2)
COUNT = sum(SIZES)
FIXED = ("natural", "top-k:fraction=0.1|natural", "rand-k:fraction=0.25|natural")
VARYING = ("natural:coder=rans", "sign", "sparse-dithering", "spherical")
BIASED = ("top-k:fraction=0.1|natural", "sign", "sparse-dithering", "spherical")
WITHOUT_MOMENTUM = ("ef14", "ef21", "diana", "ef-bv")
METHODS = (*WITHOUT_MOMENTUM, "ef14:momentum=0.9")
ALLOWED = [(m, o) for m in METHODS for o in FIXED + VARYING if m != "diana" or o not in BIASED]
EVERY = pytest.mark.parametrize("collective", COLLECTIVES)


def check(courses: list[Course], simulation: Simulation, given: Gradients) -> None:
    """Every step's mean and every rank's memories, bit for bit."""
    for step, mean in enumerate(courses[0].means):
        expected = simulation.step(step, [given(r, step) for r in range(simulation.world)], ())
        assert mean.tobytes() == expected.tobytes(), step
    for rank, course in enumerate(courses):
        same(course.memories[-1], simulation.memories(rank))


def same(found: Memories, expected: Memories) -> None:
    assert found.keys() == expected.keys()
    for key, memory in found.items():
        assert memory.tobytes() == np.ascontiguousarray(expected[key]).tobytes(), key


def some(values: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """One of so many in the gate, the others in the soak."""
    return [
        pytest.param(*own, marks=() if number % every == 0 else pytest.mark.soak)
        for number, own in enumerate(values)
    ]


CASES = [(collective, *pair) for pair, collective in product(ALLOWED, COLLECTIVES)]


@pytest.mark.parametrize(("collective", "method", "spec"), some(CASES, 4))
def test_collectives_are_the_formulas_of_the_papers(
    collective: str, method: str, spec: str
) -> None:
    batch, given = units(SIZES, spec), values(COUNT)
    courses = reduced(collective, method, 3, batch, given=given)
    check(courses, Simulation(collective, method, 3, batch, np.float32), given)
    memory = courses[0].memories[-1]
    assert any(array.any() for key, array in memory.items() if key.startswith("worker"))


@EVERY
@pytest.mark.parametrize(
    ("method", "spec"),
    [
        ("dgc:momentum=0.9", "top-k:fraction=0.1|natural"),
        ("dgc:momentum=0.5", "rand-k:fraction=0.25|natural"),
        ("ef14:decay=0.75", "top-k:fraction=0.1|natural"),  # in the table that encodes
        ("ef14:momentum=0.5,decay=0.75", "natural"),
    ],
)
def test_senders_options_are_the_formulas_of_the_papers(
    collective: str, method: str, spec: str
) -> None:
    batch, given, bad = units(SIZES, spec), values(COUNT), 3

    def sick(rank: int, step: int) -> np.ndarray:
        g = given(rank, step).copy()
        g[7] = np.inf if (rank, step) == (1, bad) else g[7]
        return g

    courses = reduced(collective, method, 2, batch, given=sick, steps=bad + 1, cuts=(1, 3))
    simulation = Simulation(collective, method, 2, batch, np.float32)
    for step, mean in enumerate(courses[0].means[:bad]):
        expected = simulation.step(step, [given(r, step) for r in range(2)], ())
        assert mean.tobytes() == expected.tobytes(), step
    for rank, course in enumerate(courses):
        same(course.memories[bad - 1], simulation.memories(rank))
        same(course.memories[bad], course.memories[bad - 1])  # the last step left no trace


@pytest.mark.parametrize(
    ("collective", "method", "world", "format"),
    some(product(COLLECTIVES, METHODS, (1, 2, 5), (FLOAT32, FLOAT64)), 5),
)
def test_worlds_and_formats(collective: str, method: str, world: int, format: Format) -> None:
    batch, given = units(SIZES, "natural:coder=rans"), values(COUNT, format)
    courses = reduced(collective, method, world, batch, given=given, format=format)
    check(courses, Simulation(collective, method, world, batch, format.name), given)


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize(("method", "spec"), ALLOWED[::5])
def test_star_and_sharded_are_one_method(method: str, spec: str, world: int) -> None:
    batch, given = units(SIZES, spec), values(COUNT)
    star, sharded = (reduced(s, method, world, batch, given=given) for s in ("star", "sharded"))
    assert [m.tobytes() for m in star[0].means] == [m.tobytes() for m in sharded[0].means]


@EVERY
@pytest.mark.parametrize("method", METHODS)
def test_threads_and_batches_do_not_change_a_bit(collective: str, method: str) -> None:
    batch, given = units(SIZES, "natural:coder=rans"), values(COUNT)
    courses = [
        reduced(collective, method, 2, batch, given=given, threads=threads, cuts=cuts)
        for threads, cuts in ((1, ()), (2, ()), (1, (1, 3)), (3, (2,)))
    ]
    for course in courses[1:]:
        for rank, own in enumerate(course):
            expected = courses[0][rank]
            assert [m.tobytes() for m in own.means] == [m.tobytes() for m in expected.means]
            same(own.memories[-1], expected.memories[-1])


@EVERY
@pytest.mark.parametrize("method", METHODS)
def test_a_rank_without_inputs_keeps_its_memory_while_others_go_on(
    collective: str, method: str
) -> None:
    batch, given = units(SIZES, "natural"), values(COUNT)
    gone = 2  # rank 1 has no more inputs from this step on

    def uneven(rank: int, step: int) -> np.ndarray:
        return np.zeros(COUNT, np.float32) if rank == 1 and step >= gone else given(rank, step)

    without_inputs = [(1, step) for step in range(gone, 4)]
    courses = reduced(
        collective, method, 3, batch, given=uneven, steps=4, without_inputs=without_inputs
    )
    simulation = Simulation(collective, method, 3, batch, np.float32)
    for step, mean in enumerate(courses[0].means):
        resting = {1} if step >= gone else set()
        expected = simulation.step(step, [uneven(rank, step) for rank in range(3)], resting)
        assert mean.tobytes() == expected.tobytes()
    for rank, course in enumerate(courses):
        before, after = course.memories[gone - 1], course.memories[-1]
        kept = [
            before[key].tobytes() == array.tobytes()
            for key, array in after.items()
            if key.startswith("worker")
        ]
        assert all(kept) == (rank == 1)
        same(after, simulation.memories(rank))


@EVERY
@pytest.mark.parametrize("method", WITHOUT_MOMENTUM)
def test_exact_units_have_no_memory_and_are_exact(collective: str, method: str) -> None:
    exact, lossy = fewbits.operator("identity"), fewbits.operator("natural")
    pairs = [(exact, exact), (lossy, exact), (exact, lossy), (lossy, lossy)]
    batch = [
        Unit(unit.name, unit.start, unit.count, *pair)
        for unit, pair in zip(units(SIZES), pairs, strict=True)
    ]
    given = values(COUNT)
    courses = reduced(collective, method, 2, batch, given=given, cuts=(1, 2))
    check(courses, Simulation(collective, method, 2, batch, np.float32), given)
    for step, mean in enumerate(courses[0].means):
        plain = (given(0, step) + given(1, step)) / np.float32(2)
        assert mean[: SIZES[0]].tobytes() == plain[: SIZES[0]].tobytes()
        assert mean[-SIZES[3] :].tobytes() != plain[-SIZES[3] :].tobytes()
    names = {key.split("/", 1)[1] for course in courses for key in course.memories[-1]}
    assert names == {"p1/0", "p3/0"} | ({"p2/0"} if collective != "gather" else set())


@EVERY
def test_exact_units_have_the_momentum_of_the_feedback(collective: str) -> None:
    """The optimizer has none then, so nothing else would give it to them."""
    batch, given = units((900, 300), "identity"), values(1200)
    courses = reduced(collective, "ef14:momentum=0.5", 2, batch, given=given, cuts=(1,))
    total = np.zeros(1200, np.float32)
    for step, mean in enumerate(courses[0].means):
        both = given(0, step) + given(1, step)
        total = total / 2 + both / 2
        np.testing.assert_allclose(mean, total, rtol=1e-5, atol=1e-6)
    assert not np.allclose(courses[0].means[-1], (given(0, 2) + given(1, 2)) / 2)


@EVERY
@pytest.mark.parametrize("method", [method for method in METHODS if method != "diana"])
def test_parameters_without_a_gradient_keep_their_memory(collective: str, method: str) -> None:
    """DDP drops the mean of a parameter that no rank has reached: nothing may be in it."""
    batch = units((700, 400), "top-k:fraction=0.1|natural")
    given = values(1100)

    def rested(rank: int, step: int) -> np.ndarray:
        g = given(rank, step).copy()
        g[700:] *= step < 2
        return g

    unused = [(rank, step, "p1") for rank in range(2) for step in (2, 3)]
    courses = reduced(collective, method, 2, batch, given=rested, steps=4, unused=unused)
    for course in courses:
        before, after = course.memories[1], course.memories[3]
        assert np.any(before["worker/p1/0"])
        assert before["worker/p1/0"].tobytes() == after["worker/p1/0"].tobytes()
        assert before["worker/p0/0"].tobytes() != after["worker/p0/0"].tobytes()


@EVERY
@pytest.mark.parametrize("method", WITHOUT_MOMENTUM)
def test_batches_of_exact_units_alone_need_no_room(collective: str, method: str) -> None:
    batch, given = units((40_000, 30_000), "identity"), values(70_000)
    courses = reduced(collective, method, 2, batch, given=given, cuts=(1,))
    for step, mean in enumerate(courses[0].means):
        plain = (given(0, step) + given(1, step)) / np.float32(2)
        assert mean.tobytes() == plain.tobytes()
    assert not any(course.memories[-1] for course in courses)


@pytest.mark.parametrize(
    ("collective", "method", "value"),
    some(product(COLLECTIVES, METHODS, (np.nan, np.inf, 3e38)), 4),
)
def test_a_step_that_is_not_finite_leaves_memories_as_they_were(
    collective: str, method: str, value: float
) -> None:
    """3e38 is finite on each rank and overflows in the sum."""
    spec = "identity" if value == 3e38 else "natural"
    batch = [
        *units((700,), "natural"),
        Unit("last/0", 700, 33, fewbits.operator(spec), fewbits.operator(spec)),
    ]
    healthy = values(733)

    def sick(rank: int, step: int) -> np.ndarray:
        g = healthy(rank, step).copy()
        if step == 2 and (rank == 1 or value == 3e38):
            g[710] = value
        return g

    for course in reduced(collective, method, 2, batch, given=sick, steps=4, cuts=(1,)):
        assert [bool(np.isfinite(mean).all()) for mean in course.means] == [True, True, False, True]
        _, before, after, further = course.memories
        same(after, before)
        assert all(np.isfinite(memory).all() for memory in further.values())
        key = f"worker/{batch[0].name}"
        assert further[key].tobytes() != before[key].tobytes()
