"""Steps of `low-rank` and of torch's PowerSGD on a slow link, taking turns.

    sudo python -m fewbits_lab.studies.race.links --ranks 2 4

measures what `result-links.json` does not have yet: the workload of the link laboratory at 100
Mbit/s. Plain DDP is not among the contenders, because one of its steps takes as long as twenty of
theirs; `links` has it.
"""

import argparse
import json
from itertools import product
from pathlib import Path

from fewbits.cli.console import say
from fewbits_lab.links import names, tools
from fewbits_lab.links.laboratory import Laboratory
from fewbits_lab.links.setting import LinkSetting, ShapedLink
from fewbits_lab.links.store import document
from fewbits_lab.parts import replace_file
from fewbits_lab.record import Item

RACE_LINKS = Path(__file__).with_name("result-links.json")
POWERSGD_1, POWERSGD_4, LOW_RANK_8 = "powersgd:rank=1", "powersgd:rank=4", "low-rank"
LOW_RANK_4 = "low-rank:rank=4|sparse-dithering"
LINK_CONTENDERS = (POWERSGD_1, POWERSGD_4, LOW_RANK_8, LOW_RANK_4, "tiny", names.COMPUTE)
_PARAMS, _WARM_UP = 10_000_000, 8
LINK_REPEATS = 100  # steps of each contender


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], metavar="N")
    parser.add_argument("--rate", type=float, nargs="+", default=[100e6], metavar="BITS")
    parser.add_argument("--repeats", type=int, default=LINK_REPEATS, metavar="N")
    parser.add_argument("--out", type=Path, default=RACE_LINKS, metavar="FILE")
    options = parser.parse_args()
    tools.check_ready()
    for rate, ranks in product(options.rate, options.ranks):
        setting = LinkSetting(_PARAMS, ranks, ShapedLink(rate), options.repeats, _WARM_UP)
        known = _settings(options.out)
        if not any(_same(own, setting) for own in known):
            found = Laboratory(LINK_CONTENDERS).measure(setting, lambda: None)
            _keep(options.out, [*known, found])
            say("; ".join(f"{own['contender']} {own['step_seconds']['median']:.4f} s" for own
                            in found["contenders"]))  # fmt: skip


def _settings(path: Path) -> list[Item]:
    return list(json.loads(path.read_text())["settings"]) if path.exists() else []


def _same(own: Item, setting: LinkSetting) -> bool:
    there = own["ranks"], own["rate_bits_per_second"], own["repeats"]
    return there == (setting.ranks, setting.link.rate, setting.repeats)


def _keep(path: Path, settings: list[Item]) -> None:
    replace_file(path, (json.dumps(document(settings), indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
