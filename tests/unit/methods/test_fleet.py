"""Clients over several ranks: the same bits as in one process, and nothing believed unseen."""

import struct
import threading
from collections.abc import Callable

import numpy as np
import pytest

import fewbits
from fewbits import DecodeError, PeerError, Rng, methods
from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import LocalComm
from fewbits.methods import Clients, FedAvg, Fleet, State, local_descent
from fewbits.methods.messages import decode
from unit.methods.crowds import CLIENTS, SIZE, Quadratics

CROWD, RNG = Quadratics.of(), Rng.from_seed(2)
OPERATOR = {"ef14": "top-k:fraction=0.2|natural", "ef21": "sign"}


def gradient_run(name: str) -> Callable[[Fleet], State]:
    def run(fleet: Fleet) -> State:
        operator = OPERATOR.get(name, "natural")
        clients = Clients(fleet, CROWD.gradient, CROWD.smoothness, SIZE)
        method = methods.build(name, clients, operator)
        state = method.init(np.zeros(SIZE))
        for _ in range(4):
            state = method.step(state, RNG)
        return state

    return run


def federated_run(fleet: Fleet) -> State:
    train = local_descent(CROWD.gradient, 0.1, 2)
    method = FedAvg.of(fleet, train, "top-k:fraction=0.2|natural", SIZE, feedback="ef14")
    state = method.init(np.zeros(SIZE))
    for present in ([0, 2], [1], None):  # in the first round one of two ranks has nobody
        state = method.step(state, RNG, present)
    return state


RUNS = {**{name: gradient_run(name) for name in methods.METHODS}, "fedavg": federated_run}


def on_ranks(size: int, work: Callable[[LocalComm], object]) -> list[object]:
    """What each rank's work returns or raises."""
    found: list[object] = [None] * size

    def live(comm: LocalComm) -> None:
        try:
            found[comm.rank] = work(comm)
        except Exception as error:  # told to the test
            found[comm.rank] = error

    threads = [
        threading.Thread(target=live, args=(comm,)) for comm in LocalComm.group(size, timeout=20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_rank_has_the_bits_of_a_single_process(name: str, ranks: int) -> None:
    alone = RUNS[name](Fleet.alone(CLIENTS))
    assert alone.x.any()
    for state in on_ranks(ranks, lambda comm: RUNS[name](Fleet(CLIENTS, comm))):
        assert isinstance(state, State), state
        assert state.x.tobytes() == alone.x.tobytes()
        assert state.traffic == alone.traffic


def test_a_rank_that_announces_too_much_is_named() -> None:
    def work(comm: LocalComm) -> object:
        if comm.rank == 0:
            return gradient_run("dcgd")(Fleet(2, comm))
        lengths = Buffer.of(np.frombuffer(struct.pack("<Q", 2**50), np.uint8))
        comm.start(([lengths, None], [None, None]))
        return None

    error, _ = on_ranks(2, work)
    assert isinstance(error, PeerError)
    assert "rank 1 announced" in str(error)


@pytest.mark.parametrize("bad", [
    b"nothing of the kind",
    fewbits.compress(np.ones(SIZE + 1, np.float32), "natural", seed=1),
    fewbits.compress(np.ones(SIZE - 1, np.float32), "natural", seed=1),
    fewbits.compress(np.ones(SIZE, np.float64), "natural", seed=1),
    fewbits.compress(np.ones((SIZE, 1), np.float32), "natural", seed=1),
])  # fmt: skip
def test_a_message_that_is_not_a_vector_of_this_size_is_refused(bad: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(bad, SIZE)
