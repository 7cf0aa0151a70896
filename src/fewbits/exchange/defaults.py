"""What is chosen where the user says nothing, and what he is told then."""

import warnings
from collections.abc import Mapping

from fewbits import policy as policies
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.kernels.formats import FLOAT32
from fewbits.policy import Policy
from fewbits.registry import operator
from fewbits.schemes.correction import Loop
from fewbits.schemes.payload import CHUNK


def master(worker: Operator, master: str | Operator | None, *, corrected: bool) -> Operator:
    """The operator of the way back."""
    if master is not None:
        return operator(master)
    if corrected or not policies.is_biased(worker):
        return worker
    coded = any(section.varies for section in worker.layout(CHUNK, FLOAT32))
    return operator("natural:coder=rans" if coded else "natural")


def policy(policy: Policy | Mapping[str, str | Operator] | None) -> Policy:
    """A mapping of names comes before the default."""
    return policies.resolved(policy, policies.Default())


def warn_of_bias(worker: Operator) -> None:
    """Say once that nothing corrects a biased operator, and what would."""
    if policies.is_biased(worker):
        warnings.warn(
            f"{worker} is biased and nothing corrects it: training may stall short of the optimum; "
            "pass feedback='ef14', or use an unbiased operator such as 'natural'",
            stacklevel=4,
        )


def refuse_momentum_alone(loop: Loop | None, ranks: int) -> None:
    """One rank reduces nothing, so nothing would give its gradients the feedback's momentum."""
    if loop is not None and ranks == 1 and loop.method.has_momentum:
        raise SpecError(
            f"{loop.method} has momentum, but one rank alone sends nothing: give the momentum to "
            "the optimizer"
        )
