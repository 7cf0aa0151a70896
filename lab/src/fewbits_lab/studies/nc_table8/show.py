"""Shows `nc-table8`: figure, findings and claims."""

from fewbits_lab import speedups
from fewbits_lab.experiment import Experiment
from fewbits_lab.speedups import SpeedupRow
from fewbits_lab.studies.nc_table8.run import rows

NC_TABLE8 = Experiment(
    name="nc-table8",
    title="Natural compression, Table 8",
    about="As Table 7, but only the workers' messages cost: "
    "(9 / bits a value) · ((9/8) / (1 + ω))^θ.",
    row=SpeedupRow,
    compute=rows,
    draw=speedups.figure(
        "Total communication (Table 8): the master adds integers, workers' messages count",
        "natural compression",
    ),
    claims=speedups.claims("Table 8", ("D_nat, norm too",)),
    version=3,
)
