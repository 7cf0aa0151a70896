"""Speeds of the trellis against memcpy, beside those of sparse dithering in the same rounds.

    FEWBITS_SIMD=avx2 python -m fewbits_lab.studies.trellis_bits.speed

writes `result-speed.json`: whole calls on one thread, Gaussian values, processor time. It says how
many processes wanted a core meanwhile, for a copy and a search do not suffer alike from others.
"""

import json
import os
from pathlib import Path

import fewbits
from fewbits.bench import codec
from fewbits.bench.dtypes import TRELLIS_SPECS
from fewbits.bench.jobs import MEMCPY, compress_name, decompress_name
from fewbits.bench.timing import Plan
from fewbits_lab.parts import replace_file
from fewbits_lab.record import Item

_RESULTS = Path(__file__).with_name("result-speed.json")
_ELEMENTS, _PLAN = 1 << 24, Plan(rounds=7, seconds=120)
_SPECS = (
    *TRELLIS_SPECS,
    "sparse-dithering:nu=0.32,rounding=subtractive",
    "sparse-dithering:nu=0.1",
)


def main() -> None:
    """Measure and write."""
    operators = {spec: fewbits.operator(spec) for spec in _SPECS}
    report = codec.run(_ELEMENTS, list(operators.values()), (1,), _PLAN)
    timed = {row.name: row for row in report.rows}
    rows: list[Item] = []
    for spec, operator in operators.items():
        row: Item = {"operator": spec}
        for way, name in (("encode", compress_name), ("decode", decompress_name)):
            own = timed[name(operator.spec)]
            row[way] = own.memcpy_ratio_median
            row[f"{way}_gigabytes"] = 4e-9 * _ELEMENTS / own.cpu_median
        rows.append(row)
    document = {
        "cpu": report.machine.cpu,
        "simd": report.machine.simd,
        "load": round(os.getloadavg()[0], 1),
        "memcpy_gigabytes": 4e-9 * _ELEMENTS / timed[MEMCPY].cpu_median,
        "rounds": report.rounds,
        "d": _ELEMENTS,
        "runs": rows,
    }
    replace_file(_RESULTS, (json.dumps(document, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
