"""Units shrink where many ranks share few, so that no rank sends much more than its share."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import fewbits
from fewbits.collectives.comm import LocalComm
from fewbits.collectives.payload import UNIT, unit_for
from fewbits.session import (
    ArrayValues,
    Job,
    ModelParameter,
    ModelParameters,
    Options,
    Routing,
    Session,
    routes,
)
from fewbits.session.routing import cut

MODEL = [ModelParameter(f"w{at}", (1000, 250 * (1 + at % 7))) for at in range(10)]
VALUES = sum(each.size for each in MODEL)  # ten million


@pytest.mark.parametrize("ranks", [2, 4, 8, 15, 16, 100, 150, 153, 999, 5000, 9000, 10_000])
def test_the_busiest_rank_sends_little_more_than_an_even_share(ranks: int) -> None:
    natural = fewbits.operator("natural")
    routing = Routing(natural, natural, lambda name, shape: None, ModelParameters(MODEL))
    routing.unit = unit_for(VALUES, ranks)
    routing.share(ranks)
    owned = np.zeros(ranks, np.int64)
    for each in MODEL:
        for number, owner in enumerate(routing.owners(each)):
            owned[owner] += min(routing.unit, each.size - number * routing.unit)
    assert owned.sum() == VALUES
    own = int(owned.max())
    sent = (VALUES - own) + own * (ranks - 1)  # there, and back to all others
    assert sent <= 1.15 * 2 * VALUES * (ranks - 1) / ranks


def test_a_unit_is_a_power_of_two_and_as_large_as_may_be() -> None:
    for ranks in (2, 15, 16, 64, 1000, 10_000):
        for values in (1, 10**5, 10**7, 10**9, 10**11):
            unit = unit_for(values, ranks)
            assert unit.bit_count() == 1
            assert 256 <= unit <= UNIT
            if 256 < unit < UNIT:
                assert values / (8 * ranks) < unit <= values / (4 * ranks)
    assert unit_for(10**5, 15) == UNIT
    assert unit_for(10**7, 150) == 16384


def means(ranks: int, parameters: list[ModelParameter], parts: int, threads: int) -> list[Any]:
    """What each of several ranks ends with: the means, the bytes of its payloads, and the unit."""

    def rank(comm: LocalComm) -> tuple[bytes, int, int]:
        options = Options(threads=threads)
        routing = routes("natural", None, options, ModelParameters(parameters))
        session = Session(comm, routing, options)
        source = np.random.default_rng(comm.rank)
        values = [source.standard_normal(each.size, np.float32) for each in parameters]
        for step in range(parts):
            own = slice(step * len(values) // parts, (step + 1) * len(values) // parts)
            vector = np.concatenate(values[own])
            last = step == parts - 1
            job = Job(step, ArrayValues(vector), parameters[own], is_last=last)
            session.submit(job)
            for at, each in zip(range(own.start, own.stop), parameters[own], strict=True):
                values[at], vector = vector[: each.size], vector[each.size :]
        session.wait(job)
        session.close()
        told = b"".join(each.tobytes() for each in values)
        return told, session.progress.spent.payload_bytes, session.routing.unit

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(rank, LocalComm.group(ranks)))


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_real_ranks_send_as_much_and_bytes_do_not_depend_on_batches(ranks: int) -> None:
    parameters = [ModelParameter("a", (1300, 1000)), ModelParameter("b", (1310, 1000))]
    count = sum(each.size for each in parameters)
    once = means(ranks, parameters, 1, 1)
    assert len({told for told, _, _ in once}) == 1
    assert {unit for *_, unit in once} == {unit_for(count, ranks)}
    even = 2 * (ranks - 1) / ranks * count * 9 / 8
    assert even <= max(sent for _, sent, _ in once) <= 1.15 * even
    again = means(ranks, parameters, 2, 2)
    assert [told for told, *_ in again] == [told for told, *_ in once]


def test_pieces_grow_with_the_number_of_ranks() -> None:
    natural = fewbits.operator("natural")
    routing = Routing(natural, natural, lambda name, shape: None, ModelParameters(MODEL))
    routing.unit = unit_for(VALUES, 1000)
    routing.share(1000)
    units = routing.units(MODEL, VALUES)
    pieces = [part.stop - part.start for part, _ in cut(units, 1000, routing.unit)]
    assert sum(pieces) == VALUES
    assert min(pieces[:-1]) >= 4096 * 1000
