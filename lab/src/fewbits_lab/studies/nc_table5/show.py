"""Shows `nc-table5`: figure, findings and claims."""

from fewbits_lab import speedups
from fewbits_lab.experiment import Experiment
from fewbits_lab.speedups import SpeedupRow
from fewbits_lab.studies.nc_table5.run import rows

NC_TABLE5 = Experiment(
    name="nc-table5",
    title="Natural compression, Table 5",
    about="As Table 1, but master and workers compress alike and both directions cost: "
    "32 d / ((1 + ω)^(1+θ) · bits). (The table's caption has θ from 1 to 2, its header 1 + θ.)",
    row=SpeedupRow,
    compute=rows,
    draw=speedups.figure("Total communication (Table 5): both directions count", "32 bits a value"),
    claims=speedups.claims("Table 5", ("C_nat", "D_nat, norm too")),
    version=3,
)
