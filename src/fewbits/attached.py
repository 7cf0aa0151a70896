"""The methods that all adapters give their users, and the models that they take."""

from collections.abc import Container, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import profiler
from torch.optim import Optimizer

from fewbits.errors import SpecError
from fewbits.feedback import Feedback
from fewbits.session import (
    MAX_STEP_COUNT,
    ModelParameter,
    SavedState,
    Session,
    StepReport,
    warn_user,
)
from fewbits.transport.tensors import AVERAGED, real_shape

TESTED_TORCH = ("2.13",)  # docs/stability.md has them too


def warn_of_untested(version: str) -> None:
    """Warn of a torch with which the tests have not run."""
    if ".".join(version.split(".")[:2]) not in TESTED_TORCH:
        warn_user(f"fewbits is tested with torch {', '.join(TESTED_TORCH)}; this is {version}")


warn_of_untested(torch.__version__)  # once a process, as a module is imported once


def described(name: str, parameter: Tensor) -> ModelParameter:
    """A parameter as real numbers; `SpecError` for a trained one whose type nobody averages."""
    if parameter.requires_grad and parameter.dtype not in AVERAGED:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in AVERAGED)
        raise SpecError(f"{name} is {parameter.dtype}, which is not averaged: make it {known}")
    return ModelParameter(name, real_shape(parameter), parameter.requires_grad)


def placed(parameters: Iterable[Tensor]) -> tuple[str | None, list[str]]:
    """The device of trained parameters, None if there are none, and the formats of their values."""
    trained = [each for each in parameters if each.requires_grad]
    devices = {str(each.device): None for each in trained}
    formats = {str(AVERAGED[each.dtype]).removeprefix("torch."): None for each in trained}
    return next(iter(devices), None), list(formats)


def refuse_sparse(model: nn.Module, ignored: Container[str] = ()) -> None:
    """Raise `SpecError` for a layer whose gradients would be sparse."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse:
            weight = f"{name}.weight".lstrip(".")
            if module.weight.requires_grad and weight not in ignored:
                raise sparse(name or type(module).__name__)


def sparse(name: str) -> SpecError:
    """The error for sparse gradients of some layer or parameter."""
    return SpecError(
        f"the layer {name!r} makes sparse gradients, which are not compressed: make it with "
        "sparse=False, or train with fewbits.localsgd, which exchanges parameters"
    )


_COMPILED = "_orig_mod"  # where torch.compile keeps the module that it was given


def uncompiled(model: nn.Module) -> nn.Module:
    """The module that was given to torch.compile, or the model itself."""
    while isinstance(inner := getattr(model, _COMPILED, None), nn.Module):
        model = inner
    return model


def uncompiled_name(name: str) -> str:
    """A parameter's name as it is without torch.compile, so that both runs are the same."""
    return name.replace(f"{_COMPILED}.", "")


def ranges(name: str) -> AbstractContextManager[object]:
    """A range in torch's profiler; nothing while none runs, because a range takes microseconds."""
    return profiler.record_function(name) if profiler._is_profiler_enabled else nullcontext()


class Attached:
    """A session in a training program; `session` is its own."""

    session: Session

    def start(self) -> None:
        """Make the process group and check that all ranks run the same: every rank must call this.

        `attach` does; otherwise the first step does.
        """
        self.session.start()

    @property
    def feedback(self) -> Feedback | None:
        """The feedback that corrects biased operators, or None."""
        return self.session.routing.feedback

    def state_dict(self) -> SavedState:
        """The step and the memories of this rank, as plain arrays: every rank must save its own.

        Not while a step is under way.
        """
        return self.session.checkpoint.state_dict()

    def load_state_dict(
        self, saved: SavedState | Sequence[SavedState], *, reshard: bool = False
    ) -> None:
        """Go on from `state_dict()`; every rank must call this, each with its own state.

        Another number of ranks, operator, feedback or model raises `DisagreementError` on all
        ranks. With `reshard` and the states of all ranks that saved, in their order, memories are
        shared out among those that there are now: what all of them have lost, their sum, is kept.
        """
        self.session.checkpoint.load_state_dict(saved, reshard=reshard)

    def save(self, folder: str | Path) -> None:
        """Write `state_dict()` to a file of this rank in `folder`, whole or not at all."""
        self.session.checkpoint.save(folder)

    def load(self, folder: str | Path, *, reshard: bool = False) -> None:
        """`load_state_dict` from what `save` wrote to `folder`; every rank must call this.

        A missing file raises `DisagreementError` on all ranks, also with `reshard`: nobody knows
        what it held.
        """
        self.session.checkpoint.load(folder, reshard=reshard)

    def rescale(self, factor: float) -> None:
        """Multiply all memories; call it on every rank when gradients grow by this factor.

        `track` does so for a GradScaler.
        """
        self.session.checkpoint.rescale(factor)

    def track(self, scaler: Any) -> None:
        """Rescale all memories when `scaler.update()` of a GradScaler changes its scale.

        Every rank must call this once, before the first step. Without feedback it does nothing.
        """
        if not (hasattr(scaler, "update") and hasattr(scaler, "get_scale")):
            raise SpecError(f"track takes a GradScaler, got {type(scaler).__name__}")
        known: list[Any] = vars(self).setdefault("_scalers", [])
        if any(scaler is each for each in known):
            raise SpecError("this GradScaler is tracked already")
        known.append(scaler)
        update = scaler.update

        @wraps(update)
        def rescaling(*given: Any, **named: Any) -> None:
            before = scaler.get_scale() if self.feedback is not None else 1.0
            update(*given, **named)
            after = scaler.get_scale() if self.feedback is not None else 1.0
            if after != before:
                self.rescale(after / before)

        scaler.update = rescaling

    def last_step(self) -> StepReport:
        """Bytes, seconds and error of the last step, or round, that has ended on this rank."""
        return self.session.accounting.last_step()


class AttachedToSteps(Attached):
    """One whose steps a user counts as those of the training."""

    @property
    def step(self) -> int:
        """How many steps were reduced; set it on every rank when a run is resumed."""
        return self.session.progress.step

    @step.setter
    def step(self, step: int) -> None:
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < MAX_STEP_COUNT:
            raise SpecError(f"a step is a whole number from 0 to 2^63 - 1, got {step!r}")
        self.session.progress.step = step

    @property
    def skipped(self) -> bool:
        """Whether the last step was thrown away on all ranks (`nonfinite="skip"`).

        With gradients on a device this waits until the device knows.
        """
        self.session.look()
        return self.session.accounting.skipped

    def guard(self, optimizer: Optimizer) -> None:
        """Let no step of `optimizer` use gradients of an exchange that went wrong on a device.

        Faults there raise in the next step, without this. An optimizer that can skip a step on the
        device (torch's fused ones) does so, and nobody waits. Before a step of any other one the
        host waits until the exchange is known to be right, or raises.
        """
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(_after_step)

    def _before_step(self, optimizer: Optimizer, *_: object) -> None:
        stream = self.session.stream
        flag = None if stream is None else stream.found_inf
        if not isinstance(flag, Tensor) or not getattr(optimizer, _CAN_SKIP, False):
            self.session.look()
            return
        scaled = getattr(optimizer, "found_inf", None)  # of a GradScaler
        skips: Any = optimizer
        skips.found_inf = flag if scaled is None else torch.maximum(scaled, flag)


def _after_step(optimizer: Any, *_: object) -> None:
    if getattr(optimizer, "grad_scale", None) is None and hasattr(optimizer, "found_inf"):
        del optimizer.found_inf  # or else a step without an exchange would be judged by it


_CAN_SKIP = "_step_supports_amp_scaling"
