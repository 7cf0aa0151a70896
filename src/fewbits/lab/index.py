"""All experiments, in the order of the page."""

from typing import Any

from fewbits.errors import SpecError
from fewbits.lab.experiment import Experiment
from fewbits.lab.experiments import (
    bits_error,
    codec_speed,
    comparison,
    equal_bytes,
    federated_scale,
    flower,
    gradients,
    methods,
    nc_figure3,
    nc_figure21,
    nc_figures16_18,
    nc_step_time,
    nc_table1,
    nc_table5,
    nc_table7,
    nc_table8,
    nc_training,
    oc_blocks,
    oc_convergence,
    oc_lower_bounds,
    oc_regressions,
    oc_spherical,
    oc_sweep,
    oc_upper_bounds,
    peers,
    scale,
    uncertainty,
)

EXPERIMENTS: tuple[Experiment[Any], ...] = (
    nc_table1.EXPERIMENT,
    nc_table5.EXPERIMENT,
    nc_table7.EXPERIMENT,
    nc_table8.EXPERIMENT,
    nc_figure3.EXPERIMENT,
    nc_figures16_18.EXPERIMENT,
    *nc_training.EXPERIMENTS,
    nc_step_time.EXPERIMENT,
    oc_lower_bounds.EXPERIMENT,
    oc_upper_bounds.EXPERIMENT,
    oc_spherical.EXPERIMENT,
    oc_blocks.EXPERIMENT,
    oc_sweep.EXPERIMENT,
    oc_convergence.EXPERIMENT,
    oc_regressions.EXPERIMENT,
    methods.EXPERIMENT,
    federated_scale.EXPERIMENT,
    comparison.EXPERIMENT,
    uncertainty.EXPERIMENT,
    scale.EXPERIMENT,
    flower.EXPERIMENT,
    bits_error.EXPERIMENT,
    nc_figure21.EXPERIMENT,
    gradients.EXPERIMENT,
    equal_bytes.EXPERIMENT,
    codec_speed.EXPERIMENT,
    peers.EXPERIMENT,
)


def find(name: str) -> Experiment[Any]:
    """The experiment of this name."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    known = ", ".join(experiment.name for experiment in EXPERIMENTS)
    raise SpecError(f"unknown experiment {name!r}: known are {known}")
