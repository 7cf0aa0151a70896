"""One world and one setting of R14: prints how many digests were equal on all ranks.

python tests/soaking/replicas.py WORLD SETTING SCHEME STEPS
"""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "distributed")]

from launch import Launcher  # noqa: E402
from test_replicas import SETTINGS  # noqa: E402

from soaking.ranks import FAMILIES  # noqa: E402


def main() -> None:
    world, setting, scheme, steps = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    chosen = SETTINGS[setting]
    threads = chosen["threads"]
    inner = {"inner": chosen["inner"]} if chosen["inner"] else {}
    launcher = Launcher()
    try:
        results = launcher.results(
            "replicas", world, threads=threads[:world] if isinstance(threads, list) else threads,
            runs=[(spec, scheme) for spec in FAMILIES], steps=steps, every=max(1, steps // 20),
            deadline=7200.0, **inner,
        )  # fmt: skip
    finally:
        launcher.close()
    digests = [digest for own in results[0].values() for digest in own]
    # Training must have moved the parameters, and no two operators may be the same map; a coder
    # loses nothing, so `natural` is there twice.
    assert len(results[0]) == len(FAMILIES)
    assert len(set(digests)) == len(digests) * (len(FAMILIES) - 1) // len(FAMILIES)
    for rank, result in enumerate(results):
        for run, own in result.items():
            assert own == results[0][run], f"rank {rank} has other parameters: {run}"
    sys.stdout.write(f"digests={world * len(digests)}\n")


if __name__ == "__main__":
    main()
