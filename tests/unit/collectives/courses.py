"""Reductions with feedback over several steps, and the same by plain NumPy, unit by unit."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

import fewbits
from fewbits import Operator, Rng
from fewbits.collectives.correction import FeedbackState
from fewbits.collectives.payload import Unit
from fewbits.collectives.reduction import ReductionTask, commit
from fewbits.feedback import feedback
from fewbits.feedback.store import Store
from fewbits.operators.identity import Identity
from fewbits.reference.formats import FLOAT32, Format
from unit.collectives.local import COLLECTIVES, Rank, gradient, together

SEED = 11
Memories = dict[str, np.ndarray]
Gradients = Callable[[int, int], np.ndarray]
"""The values of a rank in a step."""


@dataclass
class Course:
    """What every step gave, and what a rank remembered after it."""

    means: list[np.ndarray] = field(default_factory=list)
    memories: list[Memories] = field(default_factory=list)


def values(count: int, format: Format = FLOAT32) -> Gradients:
    return lambda rank, step: gradient(rank, count, format, step).view(format.name)


def reduced(
    collective: str,
    method: str,
    world: int,
    batch: Sequence[Unit],
    *,
    given: Gradients,
    format: Format = FLOAT32,
    steps: int = 3,
    threads: int = 1,
    cuts: Sequence[int] = (),
    without_inputs: Collection[tuple[int, int]] = (),
    unused: Collection[tuple[int, int, str]] = (),
) -> list[Course]:
    """What each rank sees; the units travel in batches that begin at `cuts`, all steps but the
    first, the `without_inputs` (rank, step) only accompany the others, and the `unused` (rank,
    step, parameter) have no gradient.
    """
    ends = [0, *cuts, len(batch)]

    def work(rank: Rank) -> Course:
        store, course = Store(), Course()
        loop = FeedbackState(feedback(method), store)
        owner = {unit.name: number for number, unit in enumerate(batch)}
        for step in range(steps):
            parts = [batch] if step == 0 else [batch[a:b] for a, b in pairwise(ends)]
            if step < 2:  # a new arrangement in the second step, as DDP has one
                bound = []
                for part in parts:
                    at = part[0].start
                    moved = [
                        Unit(u.name, u.start - at, u.count, u.uplink, u.downlink, owner[u.name])
                        for u in part
                    ]
                    bound.append(
                        COLLECTIVES[collective](
                            ReductionTask(moved, format, rank.comm, threads, loop)
                        )
                    )
            flat = given(rank.comm.rank, step).copy()
            rank.progress.without_inputs = (rank.comm.rank, step) in without_inputs
            rank.progress.unused = frozenset(
                name for number, at, name in unused if (number, at) == (rank.comm.rank, step)
            )
            results = []
            for part, reduction in zip(parts, bound, strict=True):
                own = flat[part[0].start : part[-1].start + part[-1].count].copy()
                bits = own.view(format.bits)
                results.append(reduction.run(bits, Rng.from_seed(SEED), rank.progress).copy())
            commit(rank.comm, rank.progress)
            course.means.append(np.concatenate(results))
            sick = rank.progress.saw_nonfinite or not np.isfinite(course.means[-1]).all()
            store.end_step(well=not sick)
            rank.progress.saw_nonfinite = False
            course.memories.append(store.arrays())
        return course

    ranks = together(world, work)
    for rank in ranks:
        assert rank.error is None, rank.error
    for rank in ranks:
        for one, other in zip(rank.result.means, ranks[0].result.means, strict=True):
            assert one.tobytes() == other.tobytes()
    return [rank.result for rank in ranks]


def _lossy(operator: Operator, message: np.ndarray, rng: Rng, name: str) -> np.ndarray:
    return fewbits.decompress(fewbits.compress(message, operator, seed=rng.fork(name)))


def _factors(method: str, operator: Operator, count: int, senders: int) -> tuple[float, float]:
    """Lambda and nu of the papers; for EF14 both are what its output is scaled by."""
    omega = operator.guarantee(count).omega
    if method == "diana" and omega is not None:
        return 1 / (1 + omega), 1.0
    if method == "ef-bv" and omega is not None:
        return 1 / (1 + omega), 1 / (1 + omega / senders)
    if operator.guarantee(count).error < 1:
        return 1.0, 1.0
    assert omega is not None
    return 1 / (1 + omega), 1 / (1 + omega)


class Simulation:
    """One unit at a time, with the formulas of the papers."""

    def __init__(self, collective: str, method: str, world: int, batch: Sequence[Unit], kind: Any):
        self.collective, self.world, self.batch, self.type = (
            collective,
            world,
            batch,
            np.dtype(kind).type,
        )
        name, _, given = method.partition(":")
        options = dict(each.split("=") for each in given.split(",") if each)
        self.masks, self.method = name == "dgc", "ef14" if name == "dgc" else name
        self.beta, self.decay = (
            float(options.get(*own)) for own in (("momentum", 0), ("decay", 1))
        )
        zeros = {unit.name: np.zeros(unit.count, kind) for unit in batch}
        self.worker = [dict(zeros) for _ in range(world)]
        self.velocity = [dict(zeros) for _ in range(world)]
        self.mean, self.master = dict(zeros), dict(zeros)

    def step(
        self, number: int, given: Sequence[np.ndarray], without_inputs: Collection[int]
    ) -> np.ndarray:
        rng, out = Rng.from_seed(SEED), []
        for unit in self.batch:
            place = slice(unit.start, unit.start + unit.count)
            total = np.zeros(unit.count, self.type)
            for rank in range(self.world):
                private = rng.fork("private", number, rank)
                total = total + self._sent(
                    unit, rank, given[rank][place], private, rank in without_inputs
                )
            mean = total / self.type(self.world)
            if unit.uplink != Identity():
                mean = self._received(unit, unit.uplink, self.mean, mean, self.world)
            if self.collective != "gather" and unit.downlink != Identity():
                mean = self._back(unit, mean, rng.fork("second hop", number))
            out.append(mean)
        return np.concatenate(out)

    def _sent(
        self, unit: Unit, rank: int, g: np.ndarray, rng: Rng, without_inputs: bool
    ) -> np.ndarray:
        if unit.uplink == Identity():
            return g
        if without_inputs:
            return np.zeros_like(g)
        memory, name = self.worker[rank], unit.name
        step, _ = _factors(self.method, unit.uplink, unit.count, self.world)
        if self.method == "ef14":
            if self.beta:
                g = self.velocity[rank][name] = self.type(self.beta) * self.velocity[rank][name] + g
            message = g + self.type(self.decay) * memory[name]
            sent = _lossy(unit.uplink, message, rng, name)
            if self.masks:
                self.velocity[rank][name] = np.where(
                    sent == 0, self.velocity[rank][name], self.type(0)
                )
            memory[name] = message - self.type(step) * sent
        else:
            sent = _lossy(unit.uplink, g - memory[name], rng, name)
            memory[name] = memory[name] + self.type(step) * sent
        return sent

    def _received(
        self, unit: Unit, operator: Operator, memory: Memories, message: np.ndarray, senders: int
    ) -> np.ndarray:
        step, scale = _factors(self.method, operator, unit.count, senders)
        if self.method == "ef14":
            return self.type(scale) * message
        estimate = memory[unit.name] + self.type(scale) * message
        memory[unit.name] = memory[unit.name] + self.type(step) * message
        return estimate

    def _back(self, unit: Unit, mean: np.ndarray, rng: Rng) -> np.ndarray:
        step, _ = _factors(self.method, unit.downlink, unit.count, 1)
        own = self.master[unit.name]
        if self.method == "ef14":
            message = mean + own
            sent = _lossy(unit.downlink, message, rng, unit.name)
            self.master[unit.name] = message - self.type(step) * sent
            return self.type(step) * sent
        sent = _lossy(unit.downlink, mean - own, rng, unit.name)
        return self._received(unit, unit.downlink, self.master, sent, 1)

    def memories(self, rank: int) -> Memories:
        """What the rank must remember, by the names that a store has."""
        found: Memories = {}
        for number, unit in enumerate(self.batch):
            name = unit.name
            owns = {"sharded": number % self.world == rank, "star": rank == 0, "gather": True}
            if unit.uplink != Identity():
                rows = [self.worker[rank][name]]
                rows += [self.velocity[rank][name]] if self.beta else []
                found[f"worker/{name}"] = np.stack(rows)
                if self.method != "ef14" and owns[self.collective]:
                    found[f"mean/{name}"] = self.mean[name][None]
            if (
                unit.downlink != Identity()
                and self.collective != "gather"
                and (self.method != "ef14" or owns[self.collective])
            ):
                found[f"master/{name}"] = self.master[name][None]
        return found
