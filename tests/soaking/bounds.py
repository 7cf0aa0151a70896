"""R7 and R8: memory and time that a frame can take from its reader."""

import contextlib
import math
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from random import Random

import numpy as np

import fewbits
import peaks
from cases import ROW_IDS, ROWS, array
from fewbits.errors import DecodeError
from fuzz import swift, test_fuzz
from soaking.stage import CODEC, CORE, Stage, StageError, Work

HEADERS = 10_000
BEFORE_REFUSAL = 8192  # bytes that a refusal may take: the header as Python sees it, and the error
LIMIT = 1 << 16  # elements, of the slowest frames
SLOW = 0.010  # seconds that no input of 4 KiB may take within that limit
EXPONENT = 1.2  # of the time as a power of the number of values; 1 is linear


# ---- memory ----


def memory(work: Work) -> None:
    """Each row in a child of its own: what its calls take above their input and output."""
    figures, names = work.figures.setdefault("peaks", {}), list(peaks.MEASURED)
    share: dict[str, float] = work.figures.setdefault("share", {})
    while not work.over:
        name = names[work.start % len(names)]
        values = peaks.VALUES >> (6 if "coder-paper" in name else 0)
        found = peaks.peaks(values, [name])[name]
        figures[name] = [round(own / 2**20, 2) for own in found]
        if not peaks.is_exempt(name) and peaks.excess(name, values, found) > 1:
            raise StageError(f"{name} takes {figures[name]} MiB: compress, decompress; two threads")
        share[name] = round(peaks.excess(name, values, found), 2)
        most = max((name for name in share if not peaks.is_exempt(name)), key=share.get, default="")
        told = f"at most {share[most]:.2f} of what is allowed, by `{most}`" if most else "exempt"
        work.add(1, told)


# ---- hostile headers ----


def hostile(random: Random) -> bytes:
    """A frame whose header claims far more than its bytes hold, behind a right checksum."""
    draft = test_fuzz.plausible_draft(random)
    huge = random.choice([number for number in test_fuzz.NOTABLE if number >= 2**31])
    draft.shape = [random.choice((huge, huge, 1, 3)) for _ in range(random.randrange(1, 6))]
    draft.shape.append(huge)
    return draft.encode()


def headers(work: Work) -> None:
    """What Python traces while a header is refused; the first refusals load what they need."""
    random = Random(f"hostile {work.start}")
    for _ in range(200):
        refused(hostile(random))
    worst = work.figures.get("worst", 0)
    tracemalloc.start()
    try:
        while not work.over:
            for _ in range(500):
                worst = max(worst, refused(hostile(random)))
            work.figures["worst"] = worst
            work.add(500, f"at most {worst:,} bytes, Python's own objects")
    finally:
        tracemalloc.stop()
    if worst > BEFORE_REFUSAL:
        raise StageError(f"{worst:,} bytes were allocated before a refusal")


def refused(frame: bytes) -> int:
    """Bytes of the peak, less those of the traceback that a caught error keeps."""
    if tracemalloc.is_tracing():
        tracemalloc.clear_traces()
    before = tracemalloc.get_traced_memory()[0]
    try:
        fewbits.decompress(frame)
    except DecodeError:
        return tracemalloc.get_traced_memory()[1] - before
    raise StageError(f"accepted: {frame.hex()}")


# ---- time ----


def seconds(frame: np.ndarray, repeats: int = 3) -> float:
    """The least of a few times on the processor: what the frame needs, whatever else runs."""
    least = math.inf
    for _ in range(repeats):
        start = time.thread_time()
        with contextlib.suppress(DecodeError):
            fewbits.decompress(frame, max_elements=LIMIT, threads=1)
        least = min(least, time.thread_time() - start)
    return least


def climb(work: Work) -> None:
    """Frames that took longest are changed again; what takes longer still replaces them."""
    source, random = np.random.default_rng(work.start), Random(f"slow {work.start}")
    pool = [slow_frame(number) for number in range(len(ROWS))]
    times = [seconds(np.frombuffer(frame, np.uint8)) for frame in pool]
    made = swift.bases(work.start)
    while not work.over:
        number = random.randrange(len(pool)) if random.random() < 0.9 else -1
        base = pool[number] if number >= 0 else next(made)
        found = swift.variants(base, 50, source)
        spent = [seconds(frame, 1) for frame in found]
        best = max(range(len(found)), key=lambda n: spent[n])
        again = seconds(found[best])
        worst = min(range(len(pool)), key=lambda n: times[n]) if number < 0 else number
        if again > times[worst]:
            pool[worst], times[worst] = found[best].tobytes(), again
        if (slowest := max(times)) > work.figures.get("slowest", 0.0):
            work.figures["slowest"] = slowest
            work.figures["elements"] = elements(pool[times.index(slowest)])
        work.add(50, told_slowest(work))
    if (slowest := seconds(np.frombuffer(pool[times.index(max(times))], np.uint8), 9)) > SLOW:
        raise StageError(f"an input of 4 KiB takes {1e3 * slowest:.1f} ms")


def told_slowest(work: Work) -> str:
    slowest, count = work.figures["slowest"], max(1, work.figures["elements"])
    each = f"{1e9 * slowest / count:.0f} ns a value" if count > 100 else "few values"
    return f"slowest {1e3 * slowest:.2f} ms for {count:,} values, {each}"


def slow_frame(number: int) -> bytes:
    """As many values of a row as 4 KiB hold."""
    case, format = ROWS[number]
    for count in (LIMIT, LIMIT // 4, LIMIT // 16, 1000, 500, 100):
        x = array(np.random.default_rng(1).standard_normal(count), format)
        x[np.arange(count) % 16 != 0] = 0
        frame = bytes(fewbits.compress(x, case.operator, seed=1, threads=1))
        if len(frame) <= 4096:
            return frame
    return frame


def elements(frame: bytes) -> int:
    try:
        return fewbits.inspect(frame).elements
    except DecodeError:
        return 0


def growth(work: Work) -> None:
    """Times of 2^14 to 2^20 values of each row, and the slope of their logarithms."""
    slopes = work.figures.setdefault("slopes", {})
    sizes = [1 << power for power in range(14, 21, 2)]
    while not work.over:
        number = work.start % len(ROWS)
        slopes[ROW_IDS[number]] = slope = round(least(partial(fitted, number, sizes)), 3)
        steepest = max(slopes, key=lambda name: slopes[name])
        work.add(1, f"steepest exponent {slopes[steepest]:.2f}, of `{steepest}`")
        if slope > EXPONENT:
            raise StageError(f"time of {ROW_IDS[number]} grows with the power {slope:.2f}")


def least(measure: Callable[[], float]) -> float:
    """Of up to three fits the least: another process may have slowed the largest size."""
    found = math.inf
    for _ in range(3):
        found = min(found, measure())
        if found <= EXPONENT - 0.1:
            break
    return found


def fitted(number: int, sizes: list[int]) -> float:
    case, format = ROWS[number]
    times = []
    for count in sizes:
        x = array(np.random.default_rng(1).standard_normal(count), format)
        frame = fewbits.compress(x, case.operator, seed=1, threads=1)
        out, spent = np.empty_like(x), []
        for _ in range(5):
            start = time.thread_time()
            fewbits.decompress(frame, out=out, threads=1)
            spent.append(time.thread_time() - start)
        times.append(min(spent))
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


COVERS = (*CORE, *CODEC)
STAGES = (
    Stage("memory", "R7", "memory above input and output of 2^24 values, every operator, dtype and "
          "coder", "rows", len(peaks.MEASURED), COVERS, memory),
    Stage("headers", "R7", "headers that claim too much: memory before they are refused",
          "headers", HEADERS, COVERS, headers, least=500),
    Stage("climb", "R8", "the slowest of inputs of 4 KiB that may claim 65,536 values",
          "inputs", 100_000, COVERS, climb, least=5000),
    Stage("growth", "R8", "the exponent of decoding time in the number of values", "rows",
          len(ROWS), COVERS, growth),
)  # fmt: skip
