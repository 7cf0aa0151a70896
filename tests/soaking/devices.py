"""Device kernels without a device: all of them compiled, read, executed and changed."""

import os
import sys

from soaking.programs import run
from soaking.stage import Stage, StageError, Work

PARTS = (
    *(("compiled", "--target", target) for target in ("sm_80", "sm_90", "sm_100", "gfx942")),
    *(("emulated", "--thorough", "--target", target) for target in ("sm_80", "sm_90", "sm_100")),
    ("mutants",), ("interpreted", "--thorough"), ("tested",),
)  # fmt: skip
COVERS = ("src/fewbits/backend/device/**/*.py", "lab/src/fewbits_lab/devices/*.py",
          "src/fewbits/verify/*.py")  # fmt: skip


def compiled(work: Work) -> None:
    """One part after the other; the study's result file has the figures that docs render."""
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    study = (sys.executable, "-m", "fewbits_lab.studies.device.run")
    while not work.over:
        part = PARTS[work.start % len(PARTS)]
        run(f"device-{'-'.join(part)}", *study, *part, env=environment)
        work.add(1, "all bytes equal, nothing breaks the lint", " ".join(part))
    wrong = faults()
    if wrong:
        raise StageError(wrong[0])


def faults() -> list[str]:
    """What the study has found wrong."""
    import json

    from fewbits_lab.studies.device.run import DEVICE

    found = json.loads(DEVICE.read_text(encoding="utf-8"))
    return [
        *(text for own in found["emulated"].values() for text in own["differences"]),
        *(f"{row['kernel']} for {row['target']}: {row['faults'][0]}"
          for own in found["compiled"].values() for row in own["rows"] if row["faults"]),
        *(f"{test} has not passed"
          for own in found.get("tested", {}).values() for test in own["others"]),
    ]  # fmt: skip


STAGES = (
    Stage("device", "R5", "device kernels compiled for four targets, their PTX run and changed",
          "parts", len(PARTS), COVERS, compiled),
)  # fmt: skip
