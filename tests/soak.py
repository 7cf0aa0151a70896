"""Hours of patience, run by `make soak`; every figure is kept with the commit it was reached on.

    python tests/soak.py [stage ...] [--fraction 0.1] [--seconds 600] [--list] [--old] [--fresh]

A stage goes on where the last run on the same code has ended: `fewbits_lab.studies.reliability` has
the sums, and `docs/reliability.md` shows them. Every stage runs even if one before it failed; the
exit code says whether all passed. Output of a stage's programs is kept in `build/soak/`.
"""

import argparse
import signal
import subprocess
import sys
import time

from fewbits_lab.studies.reliability import run as ledger
from mutants import say
from soaking import (
    bounds,
    damage,
    devices,
    draws,
    emulated,
    fuzzing,
    kernels,
    ranks,
    suites,
    versions,
)
from soaking.stage import Stage, StageError, begin

# In the order of what they tell for the time that they take.
MODULES = (damage, kernels, devices, emulated, bounds, fuzzing, ranks, draws, suites, versions)
STAGES: dict[str, Stage] = {own.name: own for module in MODULES for own in module.STAGES}


def run_stage(stage: Stage, fraction: float, seconds: float, fresh: bool) -> tuple[bool, str]:
    """Whether the stage held, and one line on it."""
    size = max(stage.least, round(fraction * stage.full))
    say(f"== {stage.name} ({stage.promises}): {stage.what}; {size:,} {stage.unit}")
    work, start = begin(stage, size, seconds, fresh=fresh), time.perf_counter()
    try:
        stage.run(work)
        held, text = True, work.row["summary"]
    except (StageError, OSError, subprocess.SubprocessError) as error:
        held, text = False, str(error)
        work.fail(text)
    spent = time.perf_counter() - start
    reached = f"{work.done:,} {stage.unit} now, {work.start:,} of {stage.full:,} in all"
    say(f"   {'passed' if held else 'FAILED'} in {spent:.0f} s: {reached}; {text}")
    first = text.splitlines()[0] if text else ""
    return held, f"{spent:8.0f}  {work.start:,} of {stage.full:,} {stage.unit}; {first}"


def main() -> int:
    parser = argparse.ArgumentParser(description="what `make soak` runs")
    parser.add_argument("stages", nargs="*", help=f"of {', '.join(STAGES)}; all without a name")
    parser.add_argument("--fraction", type=float, default=1.0, help="of each stage's full size")
    parser.add_argument("--seconds", type=float, default=1e9, help="a stage is ended after that")
    parser.add_argument("--fresh", action="store_true", help="forget what these stages have done")
    parser.add_argument("--list", action="store_true", help="show the stages and stop")
    parser.add_argument("--old", action="store_true", help="name figures older than the code")
    chosen = parser.parse_args()
    unknown = set(chosen.stages) - set(STAGES)
    if unknown:
        parser.error(f"no stage named {', '.join(sorted(unknown))}")
    if chosen.list:
        for stage in STAGES.values():
            say(f"{stage.name:16} {stage.promises:8} {stage.full:>14,} {stage.unit}: {stage.what}")
        return 0
    if chosen.old:
        say("\n".join(ledger.old(ledger.read())))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended early; what was reached is kept"))
    results = {
        name: run_stage(STAGES[name], chosen.fraction, chosen.seconds, chosen.fresh)
        for name in chosen.stages or STAGES
    }
    say(f"\n{'stage':16} {'result':7} {'seconds':>8}")
    for name, (held, line) in results.items():
        say(f"{name:16} {'passed' if held else 'FAILED':7} {line}")
    say("`make numbers` writes the figures into docs/reliability.md")
    return 0 if all(held for held, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
