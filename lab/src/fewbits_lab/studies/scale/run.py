"""How compression scales: 2 to 10,000 workers, 100 Mbit/s to 400 Gbit/s, 10 M to 70 B parameters.

Bytes of up to 16 ranks are measured, with threads and real messages; the rest is a model of them.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from fewbits.collectives.payload import UNIT, unit_for
from fewbits_lab.experiment import StudySettings, Tick, silent
from fewbits_lab.studies.scale import model

_RESULT = Path(__file__).with_name("result-summary.json")
SUMMED_UP = ("bfloat16", "natural", "natural:coder=rans")
SIZES = {"10 M": 10**7, "100 M": 10**8, "1 B": 10**9, "7 B": 7 * 10**9, "70 B": 7 * 10**10}
SCALE_WORKERS = (2, 4, 8, 16, 64, 256, 1024, 4096, 10_000)
SCALE_LINKS = (1e8, 1e9, 1e10, 1e11, 4e11)
LOCAL_STEPS = (1, 32)
TRIED = ((2, 16), (4, 16), (8, 16), (16, 16), (8, 4))  # ranks, and chunks of the vector
SCALE_MEASURED, SCALE_MODELLED = "measured", "modelled"


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """One case; of a measured one only bytes are known, and `formula` is what the model says."""

    kind: str
    parameters: str
    workers: int
    gbit_per_second: float | None
    operator: str
    local_steps: int | None
    megabytes: float  # of the busiest rank, in a step on average
    formula: float | None
    step_seconds: float | None
    gain: float | None  # over plain all-reduce with as many local steps
    pays_below_gbit: float | None
    best: str  # of all operators, in this case


def rows(settings: StudySettings, tick: Tick) -> list[ScaleRow]:
    """The measured rows, then the model of every case."""
    bits = {spec: model.bits_per_value(spec, settings.seed) for spec in model.SPEEDS}
    tried = TRIED[:2] if settings.quick else TRIED
    found = []
    for part, (ranks, count) in enumerate(tried, 1):
        found += [_measured(spec, bits[spec], ranks, count, settings.seed) for spec in bits]
        tick(part / (len(tried) + 1))
    for name, values in SIZES.items():
        for workers in SCALE_WORKERS:
            for bandwidth in SCALE_LINKS:
                for steps in LOCAL_STEPS:
                    found += _modelled((name, values), workers, bandwidth, steps, bits)
    tick(1.0)
    return found


def _measured(spec: str, bits: float, ranks: int, count: int, seed: int) -> ScaleRow:
    values = count * UNIT
    sent = model.measured(spec, values, ranks, seed)
    formula = model.exchange(values, ranks, 1e9, model.codec(spec, bits)).bytes
    return ScaleRow(
        SCALE_MEASURED, f"{values:,}", ranks, None, spec, None, sent.busiest / 1e6, formula / 1e6,
        None, None, None, "",
    )  # fmt: skip


def _modelled(
    size: tuple[str, int], workers: int, bandwidth: float, steps: int, bits: dict[str, float]
) -> list[ScaleRow]:
    name, values = size
    codecs = {spec: model.codec(spec, own) for spec, own in bits.items()}
    rounds = {model.SCALE_PLAIN: model.exchange(values, workers, bandwidth, None)}
    rounds |= {s: model.exchange(values, workers, bandwidth, own) for s, own in codecs.items()}
    seconds = {spec: own.seconds(steps) for spec, own in rounds.items()}
    best = model.verdict(list(seconds.items()))
    found = []
    for spec, own in rounds.items():
        below = None
        if spec != model.SCALE_PLAIN:
            below = model.pays_below(values, workers, codecs[spec]) / 1e9
        gain = seconds[model.SCALE_PLAIN] / seconds[spec]
        sent = own.bytes / steps / 1e6
        found.append(
            ScaleRow(SCALE_MODELLED, name, workers, bandwidth / 1e9, spec, steps, sent, None,
                     seconds[spec], gain, below, best)
        )  # fmt: skip
    return found


def _over_even() -> dict[str, float]:
    """Payload of the busiest rank over 2(n-1)/n of the codes, the most at any number of workers."""
    found = {}
    for name, values in SIZES.items():
        over = 0.0
        for workers in SCALE_WORKERS:
            even = 2 * values * (workers - 1) / workers
            over = max(over, model.sharded(values, workers).sent / even)
        found[name] = over
    return found


def main() -> None:
    """Compute the rows, sum them up and write `result-summary.json`: rows are too many for it."""
    table = rows(StudySettings(), silent)
    _RESULT.write_text(json.dumps(summary(table), indent=1) + "\n")


def summary(table: Sequence[ScaleRow]) -> dict[str, Any]:
    """The summary of the rows for README and docs."""
    tried = [row for row in table if row.kind == SCALE_MEASURED]
    cases = [row for row in table if row.kind == SCALE_MODELLED]
    return {
        "measured_ranks": sorted({row.workers for row in tried if row.formula}),
        "formula_off": {
            name: max(
                abs(row.megabytes / row.formula - 1)
                for row in tried
                if row.formula and row.operator == name
            )
            for name in SUMMED_UP
        },
        "fastest": _fastest(cases),
        "pays_below_gbit": _pays_below(cases),
        "more_workers_than_chunks": _crowd(cases),
        "over_even": _over_even(),
    }


def _fastest(cases: Sequence[ScaleRow]) -> list[dict[str, Any]]:
    """Which operator is the fastest, in how many cases of each link and number of local steps."""
    found = []
    for link, steps in product(SCALE_LINKS, LOCAL_STEPS):
        counted = Counter(
            row.best
            for row in cases
            if (row.gbit_per_second, row.local_steps, row.operator)
            == (link / 1e9, steps, model.SCALE_PLAIN)
        )
        if counted:
            own = {"gbit_per_second": link / 1e9, "local_steps": steps, "cases": dict(counted)}
            found.append(own)
    return found


def _pays_below(cases: Sequence[ScaleRow]) -> dict[str, dict[str, list[float]]]:
    """The least and the largest Gbit/s below which an operator pays, by local steps."""
    usual = [row for row in cases if row.workers * UNIT <= SIZES[row.parameters]]
    found: dict[str, dict[str, list[float]]] = {}
    for name, steps in product(SUMMED_UP, LOCAL_STEPS):
        own = [
            row.pays_below_gbit
            for row in usual
            if (row.operator, row.local_steps) == (name, steps) and row.pays_below_gbit
        ]
        if own:
            found.setdefault(name, {})[str(steps)] = [min(own), max(own)]
    return found


def _crowd(cases: Sequence[ScaleRow]) -> dict[str, Any]:
    """The smallest model on the most workers, whose units are the smallest."""
    small, most = next(iter(SIZES)), max(SCALE_WORKERS)
    own = [
        row
        for row in cases
        if (row.parameters, row.workers, row.local_steps, row.gbit_per_second)
        == (small, most, 1, 1)
    ]
    return {
        "parameters": small,
        "unit": unit_for(SIZES[small], most),
        "headers": model.header_bytes(SIZES[small], most) / 1e6,
        "coded_more": model.coded_more(SUMMED_UP[-1], unit_for(SIZES[small], most), 1),
        "workers": most,
        "megabytes": {row.operator: row.megabytes for row in own},
        "pays": any((row.pays_below_gbit or 0) > 0 for row in own),
    }


if __name__ == "__main__":
    main()
