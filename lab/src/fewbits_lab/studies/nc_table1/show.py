"""Shows `nc-table1`: figure, findings and claims."""

from fewbits_lab import speedups
from fewbits_lab.experiment import Experiment
from fewbits_lab.speedups import SpeedupRow
from fewbits_lab.studies.nc_table1.run import rows

NC_TABLE1 = Experiment(
    name="nc-table1",
    title="Natural compression, Table 1",
    about="Total communication against no compression, where only the workers' messages count: "
    "32 d / ((1 + ω)^θ · bits), with θ = 1 for one worker and θ → 0 for many; d = 10⁶, q = d/10, "
    "p = 2, the best number s of levels. z = √d·2^(1−s), κ = min{1, z}.",
    row=SpeedupRow,
    compute=rows,
    draw=speedups.figure(
        "Total communication (Table 1): only the workers' messages count", "32 bits a value"
    ),
    claims=speedups.claims("Table 1", ("C_nat", "C_nat∘S^q", "D_nat")),
    version=3,
)
