"""How fast one core sums codes, and how fast workers exchange them over loopback UDP.

`python -m fewbits_lab.studies.switch_speed.run --out result.json` keeps the best of all
its runs in each row: what else the machine does only ever makes a figure worse.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fewbits import Rng
from fewbits.backend import library as _native
from fewbits.backend import switch as native_switch
from fewbits.bench.machine import this_machine
from fewbits.reference.switching import ExponentSpan
from fewbits.switch.aggregator import Aggregator, AggregatorSetup
from fewbits.switch.keys import SwitchKey
from fewbits.switch.protocol import Address, new_job
from fewbits.switch.worker import SwitchWorker

CHUNK = 8192
SECONDS = 0.4
_SPEEDS = {"arithmetic": "codes_per_second", "loopback": "codes_bytes_per_second_per_worker"}
PACKETS = {
    name: size - native_switch.HEADER_BYTES
    for name, size in (("8 KiB", 8192), ("1400 bytes", 1400))
}
_SECRET = "a key that protects nothing"
TABLES = ("portable", "avx2")  # AVX-512 adds with the kernels of AVX2
_PAIRS = 9  # exchanges with and without a key, by turns


def best(work: Any, count: int) -> float:
    """The most `count`s a second that `work` does, over at least a few tries."""
    fastest, until = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        began = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - began)
    return count / fastest


def arithmetic(workers: int, simd: str) -> dict[str, Any]:
    """Codes a second, from all workers together, with the rounding of the sums."""
    before = _native.simd()
    _native.use_simd(simd)
    rng, span = Rng.from_seed(1), ExponentSpan(workers)
    values = np.random.default_rng(1).standard_normal((workers, CHUNK)).astype(np.float32) / 1000
    codes = np.empty((workers, CHUNK), np.uint8)
    for worker in range(workers):
        native_switch.encode(values[worker].view(np.uint32), span, rng.fork(worker), codes[worker])
    sums, out = np.empty(CHUNK, np.int64), np.empty(CHUNK, np.uint8)

    def aggregate() -> None:
        for worker in range(workers):
            native_switch.add(codes[worker], span, sums, anew=worker == 0)
        native_switch.round_sums(sums, rng, out)

    speed = best(aggregate, workers * CHUNK)
    source, target = np.zeros(1 << 26, np.uint8), np.zeros(1 << 26, np.uint8)
    copied = best(lambda: np.copyto(target, source), source.size)
    _native.use_simd(before)
    return {
        "workers": workers,
        "simd": simd,
        "codes_per_second": speed,
        "memcpy_bytes_per_second": copied,
        "ratio_to_memcpy": speed / copied,
    }


def _serve(setup: AggregatorSetup, key: SwitchKey | None, pipe: Any) -> None:
    with Aggregator(Address("127.0.0.1", 0), setup, key=key) as own:
        pipe.send(own.address)
        before = os.times()  # without the start of the program
        while not pipe.poll():
            own.serve_for(0.1)
        after = os.times()
        used = {"user": after.user - before.user, "system": after.system - before.system}
        pipe.send(own.report() | used)


def _work(worker: int, workers: int, setup: dict[str, Any], pipe: Any) -> None:
    size, chunk = setup["codes"], setup["chunk"]
    own = SwitchWorker(
        setup["aggregators"], setup["job"], worker=worker, workers=workers, chunk=chunk, timeout=20,
        key=setup["key"],
    )  # fmt: skip
    own.join()
    chunks = np.zeros(-(-size // chunk), native_switch.PACKET_ROW)
    chunks["offset"] = chunks["first"] = np.arange(0, size, chunk)
    chunks["count"] = np.minimum(chunk, size - chunks["offset"])
    codes = np.random.default_rng(worker).integers(1, 20, size).astype(np.uint8)
    sums = np.empty_like(codes)
    own.start(chunks, codes, sums).result()
    began, before = time.perf_counter(), os.times()
    sent = [own.start(chunks, codes, sums).result() for _ in range(setup["repeats"])]
    seconds = time.perf_counter() - began
    after = os.times()
    used = after.user - before.user, after.system - before.system
    pipe.send((seconds, sum(each.resent for each in sent), *used))
    own.close()


def loopback(
    workers: int, name: str, aggregators: int, slots: int, key: SwitchKey | None = None
) -> dict[str, Any]:
    """Bytes of codes a second and worker, there and back."""
    context = multiprocessing.get_context("spawn")
    chunk, size, repeats = PACKETS[name], 1 << 24, 10
    started, pipes, addresses = [], [], []
    for _ in range(aggregators):
        near, far = context.Pipe()
        process = context.Process(
            target=_serve, args=(AggregatorSetup(workers, slots, chunk), key, far)
        )
        process.start()
        started.append(process)
        pipes.append(near)
        addresses.append(near.recv())
    setup = {
        "codes": size, "chunk": chunk, "repeats": repeats, "job": new_job(),
        "aggregators": addresses, "key": key,
    }  # fmt: skip
    ends = []
    for worker in range(workers):
        near, far = context.Pipe()
        process = context.Process(target=_work, args=(worker, workers, setup, far))
        process.start()
        started.append(process)
        ends.append(near)
    results = [end.recv() for end in ends]
    reports = []
    for pipe in pipes:
        pipe.send("stop")
        reports.append(pipe.recv())
    for process in started:
        process.join()
    return {
        "workers": workers,
        "packet": name,
        "aggregators": aggregators,
        "slots": slots,
        "codes_bytes_per_second_per_worker": size
        * repeats
        / max(seconds for seconds, *_ in results),
        "resent_packets": sum(resent for _, resent, *_ in results),
        "worker_user_seconds": sum(user for *_, user, _ in results),
        "worker_system_seconds": sum(system for *_, system in results),
        "aggregator_user_seconds": sum(report["user"] for report in reports),
        "aggregator_system_seconds": sum(report["system"] for report in reports),
        "packets": sum(report["packets"] for report in reports),
        "bytes_received": sum(report["bytes"] for report in reports),
    }


_Pair = list[dict[str, Any]]


def pair(workers: int, name: str, slots: int) -> _Pair:
    """An exchange without a key, then one with it."""
    return [loopback(workers, name, 1, slots, key) for key in (None, SwitchKey(_SECRET))]


def sealed(pairs: list[_Pair]) -> dict[str, Any]:
    """What a key costs: medians of ratios in pairs."""

    def ratios(of: Any) -> list[float]:
        return [of(keyed) / of(plain) for plain, keyed in pairs]

    def processor(row: dict[str, Any]) -> float:
        return float(sum(row[key] for key in row if key.endswith("_seconds")))

    speeds = ratios(lambda row: row[_SPEEDS["loopback"]])
    return {
        "workers": pairs[0][0]["workers"],
        "packet": pairs[0][0]["packet"],
        "pairs": len(pairs),
        "speed_ratios": sorted(speeds),
        "speed_ratio": statistics.median(speeds),
        "processor_ratio": statistics.median(ratios(processor)),
        "processor_seconds": statistics.median(processor(plain) for plain, _ in pairs),
        "processor_seconds_with_key": statistics.median(processor(keyed) for _, keyed in pairs),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--slots", type=int, default=32)
    options = parser.parse_args()
    document: dict[str, Any] = {
        "machine": asdict(this_machine()),
        "arithmetic": [arithmetic(n, simd) for simd in TABLES for n in (2, 4, 8, 16)],
        "loopback": [loopback(2, name, 1, options.slots) for name in PACKETS]
        + [loopback(4, name, 1, options.slots) for name in PACKETS],
    }
    document["sealed"] = [
        sealed([pair(2, name, options.slots) for _ in range(_PAIRS)]) for name in PACKETS
    ]
    document["last_loopback"] = document["loopback"]  # with the processors' seconds of this run
    if options.out and options.out.exists():
        known = json.loads(options.out.read_text())
        for name, key in _SPEEDS.items():
            pairs = zip(known[name], document[name], strict=True)
            document[name] = [max(pair, key=lambda row: row[key]) for pair in pairs]
    text = json.dumps(document, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
