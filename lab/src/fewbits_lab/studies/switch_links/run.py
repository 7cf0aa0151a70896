"""Traffic and step time of plain all-reduce, sharded and switched natural compression on links.

`python -m fewbits_lab.studies.switch_links.run --out result.json` measures what the
file does not have yet (root, Linux): ranks in network namespaces, links of one rate, packets lost,
the aggregator in the namespace of the bridge. Bytes are those that the ranks' interfaces count, so
they hold headers, retransmissions and acknowledgements. `--minutes` ends the work in time.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from fewbits.errors import PeerError
from fewbits_lab.links.laboratory import Laboratory
from fewbits_lab.links.setting import LinkSetting, ShapedLink

_RATE = 1e8
PARAMS = 1_000_000
_CONTENDERS = ("none", "natural", "natural@switch")
LOSSES = (0.0, 0.001, 0.01)
_RANKS = (2, 4, 8)
REPEATS, WARM_UP = 5, 4


def figures(ranks: int, loss: float) -> dict[str, Any]:
    """One setting; bytes are sent by the mean rank in a step."""
    setting = LinkSetting(PARAMS, ranks, ShapedLink(_RATE, 0.0, loss), REPEATS, WARM_UP)
    result = Laboratory(_CONTENDERS).measure(setting, lambda: None)
    rows = {row["contender"]: row for row in result["contenders"]}
    plain = rows["none"]["interface_bytes"]["mean"]
    return {
        "ranks": ranks,
        "loss": loss,
        "rate_bits_per_second": _RATE,
        "params": result["params"],
        "repeats": REPEATS,
        "shaping": result["shaping"]["text"],
        "load_average": result["load_average"],
        "contenders": {
            name: {
                "step_seconds": row["step_seconds"],
                "sent_bytes_a_step": row["interface_bytes"]["mean"],
                "less_data_than_plain": 1 - row["interface_bytes"]["mean"] / plain,
                "replicas_agree": row["replicas_agree"],
            }
            for name, row in rows.items()
        },
    }


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    known = json.loads(options.out.read_text()) if options.out.exists() else []
    until = time.monotonic() + 60 * options.minutes
    for ranks in _RANKS:
        for loss in LOSSES:
            done = any((row["ranks"], row["loss"]) == (ranks, loss) for row in known)
            if done or time.monotonic() > until:
                continue
            try:
                row = figures(ranks, loss)
            except PeerError as error:
                print(f"{ranks} ranks, {loss}: {error}", flush=True)
                continue
            known.append(row)
            options.out.write_text(json.dumps(known, indent=1) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
