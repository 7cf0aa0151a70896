"""Payloads whose sections vary in length."""

import numpy as np
import pytest

import fewbits
from fewbits.backend.kernel import Kernel, Written
from fewbits.collectives.payload import Payload, Unit
from fewbits.collectives.reduction import ReductionTask, commit
from fewbits.collectives.units import Batch, Summation
from fewbits.core.operator import Operator, Parts
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError
from fewbits.reference.formats import FLOAT32, FORMATS, Format
from fewbits.reference.tally import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Rice
from unit.collectives.local import COLLECTIVES, Rank, gradient, reduced, same_everywhere, together

EVERY = pytest.mark.parametrize("collective", list(COLLECTIVES))
CODED = fewbits.operator("natural:coder=rans")
PACKED = fewbits.operator("natural")
EXACT = fewbits.operator("identity")
SIZES = 3000, 1, 900, 2000


class Alone(type(CODED)):  # type: ignore[misc]
    """The same without a kind of its own: it calls the other from Python."""

    def kernel(self, d: int, format: Format) -> Kernel:
        return Operator.kernel(self, d, format)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        return CODED.encode(x, rng, into)

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        return CODED.decode(parts, out)


def batch(*operators: Operator) -> list[Unit]:
    starts = np.cumsum((0, *SIZES)).tolist()
    places = zip(starts, SIZES, operators * len(SIZES), strict=False)
    return [Unit(f"w{at}/0", at, count, own, own) for at, count, own in places]


def payload(*operators: Operator) -> Payload:
    return Payload(batch(*operators), "uplink", FLOAT32)


def encoded(*operators: Operator) -> Payload:
    made = payload(*operators)
    Batch([made], FLOAT32).encode(gradient(0, sum(SIZES)), Rng.from_seed(5))
    return made


@EVERY
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_the_mean_is_that_of_the_other_coder(collective: str, world: int, format: Format) -> None:
    coded = same_everywhere(reduced(collective, world, batch(CODED), format=format))
    packed = same_everywhere(reduced(collective, world, batch(PACKED), format=format))
    assert coded.tobytes() == packed.tobytes()


@EVERY
@pytest.mark.parametrize("threads", [1, 2])
def test_operators_with_and_without_kernels_mix(collective: str, threads: int) -> None:
    alone = Alone(coder="rans")
    mixed = reduced(collective, 3, batch(CODED, EXACT, alone, PACKED), threads=threads)
    kernels = reduced(collective, 3, batch(CODED, EXACT, CODED, PACKED))
    assert same_everywhere(mixed).tobytes() == same_everywhere(kernels).tobytes()


@EVERY
def test_fewer_bytes_and_one_exchange_for_each_hop(collective: str) -> None:
    def sent(operator: Operator) -> list[int]:
        def work(rank: Rank) -> list[int]:
            reduction = COLLECTIVES[collective](ReductionTask(batch(operator), FLOAT32, rank.comm))
            seen = [0]
            for _ in range(5):
                reduction.run(gradient(rank.comm.rank, sum(SIZES)), Rng.from_seed(1), rank.progress)
                commit(rank.comm, rank.progress)
                seen.append(rank.progress.spent.payload_bytes)
            return np.diff(seen).tolist()

        first, *_ = together(3, work)
        assert first.error is None, first.error
        return first.result

    coded, packed = sent(CODED), sent(PACKED)
    assert max(coded) < 0.75 * min(packed)  # a promise costs 256 bytes and 1/64 more
    assert max(coded) < min(coded) * 17 / 16 + 2 * 2 * 256


def test_lengths_come_first_and_sections_follow_without_gaps() -> None:
    made = encoded(CODED, EXACT)
    sizes = np.frombuffer(made.data[:8].tobytes(), "<u4").tolist()
    assert made.length == 8 + sum(sizes) + 4 * (SIZES[1] + SIZES[3])
    assert made.length < made.capacity
    again = payload(CODED, EXACT)
    again.length = made.length
    again.data.array()[:] = made.data.array()
    again.open()
    for number in range(len(SIZES)):
        for part, same in zip(made.parts(number), again.parts(number), strict=True):
            assert part.tobytes() == same.tobytes()


@pytest.mark.parametrize("change", ["table", "longer", "shorter", "no table", "too large"])
def test_lengths_that_do_not_add_up_are_refused(change: str) -> None:
    made = encoded(CODED)
    if change == "table":
        made.data.array()[0] ^= 1
    elif change == "longer":
        made.length += 1
    elif change == "shorter":
        made.length -= 1
    elif change == "no table":
        made.length = 3
    else:  # one section too large for its unit, another one smaller instead
        lengths = made.data[:16].array("<u4")
        surplus = int(made.slots[1].sizes[0]) + 1 - int(lengths[1])
        lengths[1] += surplus
        lengths[0] -= surplus
    with pytest.raises(DecodeError, match="do not add up") as caught:
        Batch([payload(EXACT), made], FLOAT32).decode(np.zeros(sum(SIZES), np.uint32))
    assert caught.value.row == 1
    with pytest.raises(DecodeError, match="do not add up") as caught:
        Summation([encoded(CODED), made], FLOAT32).run(np.zeros(sum(SIZES), np.float32))
    assert caught.value.row == 1


def test_a_payload_of_nothing() -> None:
    empty = Payload([], "uplink", FLOAT32)
    assert (empty.length, empty.expected, empty.fixed) == (0, 0, True)
    Batch([empty], FLOAT32).decode(np.zeros(0, np.uint32))


class Short(Operator):
    """Writes one byte of a section that may have more."""

    name, code = "short", 60_000

    def layout(self, d: int, format: Format) -> tuple:
        return (Rice("numbers", d, parameter=8, bound=512),)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        into[0][0] = 7
        return Written(Tally(), (1,))

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> tuple:
        assert [part.tolist() for part in parts] == [[7]]
        return Tally()

    def guarantee(self, d: int, format: Format = FLOAT32) -> None:
        raise NotImplementedError


def test_an_operator_in_python_says_how_much_it_wrote() -> None:
    made = encoded(Short())
    assert made.length == 4 * len(SIZES) + len(SIZES)
    Batch([made], FLOAT32).decode(np.zeros(sum(SIZES), np.uint32))


def test_every_thread_sums_in_a_place_of_its_own() -> None:
    terms = [encoded(PACKED), encoded(PACKED)]
    summation = Summation(terms, FLOAT32, onward=payload(PACKED), threads=3)
    places = summation._places().reshape(len(SIZES), -1)
    assert (places == places[:, :1]).all()
    assert places[:, 0].tolist() == [0, 12_000, 24_000, 24_000]  # four units for three threads
