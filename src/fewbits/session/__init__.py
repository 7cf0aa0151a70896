"""The part that adapters for training share: it averages a model's vectors over all ranks.

An adapter owns a `Session(comm, routing, options)` and hands it jobs; it overrides nothing. No
framework is imported here: tensors become `JobValues` at the adapter's edge.
"""

from fewbits.session.adapter import AdapterParts, SessionComm
from fewbits.session.defaults import resolved_policy, route, routes
from fewbits.session.jobs import ArrayValues, Job, JobValues, Outcome, ReplicaJob, ScatterJob
from fewbits.session.moving import lost_values, moved, refuse_common
from fewbits.session.options import (
    REDUCE_SCATTER,
    GradientOptions,
    MeanOptions,
    Options,
    ScatterOptions,
    ShardOptions,
    listed,
    option,
    takes,
)
from fewbits.session.report import Report, times
from fewbits.session.routing import ModelParameter, ModelParameters, Routing
from fewbits.session.session import Session
from fewbits.session.state import MAX_STEP_COUNT, SavedState
from fewbits.session.steps import StepReport
from fewbits.warned import warn_user

__all__ = [
    "MAX_STEP_COUNT",
    "REDUCE_SCATTER",
    "AdapterParts",
    "ArrayValues",
    "GradientOptions",
    "Job",
    "JobValues",
    "MeanOptions",
    "ModelParameter",
    "ModelParameters",
    "Options",
    "Outcome",
    "ReplicaJob",
    "Report",
    "Routing",
    "SavedState",
    "ScatterJob",
    "ScatterOptions",
    "Session",
    "SessionComm",
    "ShardOptions",
    "StepReport",
    "listed",
    "lost_values",
    "moved",
    "option",
    "refuse_common",
    "resolved_policy",
    "route",
    "routes",
    "takes",
    "times",
    "warn_user",
]
