"""Shows `nc-table7`: figure, findings and claims."""

from fewbits_lab import speedups
from fewbits_lab.experiment import Experiment
from fewbits_lab.speedups import SpeedupRow
from fewbits_lab.studies.nc_table7.run import rows

NC_TABLE7 = Experiment(
    name="nc-table7",
    title="Natural compression, Table 7",
    about="A master that can only add integers, so the baseline is natural compression; both "
    "directions cost: (9 / bits a value) · ((9/8) / (1 + ω))^(1+θ).",
    row=SpeedupRow,
    compute=rows,
    draw=speedups.figure(
        "Total communication (Table 7): the master adds integers, both directions count",
        "natural compression",
    ),
    claims=speedups.claims("Table 7", ("S^q∘C_nat", "D_nat, norm too")),
    version=3,
)
