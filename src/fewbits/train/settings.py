"""The settings of a comparison: options of the command line as one immutable value."""

import argparse
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewbits import presets, registry
from fewbits.collectives.payload import UNIT
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback import feedback
from fewbits.low_rank import LowRank, low_rank
from fewbits.presets import AUTO
from fewbits.switch.collective import check as check_switched
from fewbits.switch.job import SWITCH
from fewbits.switch.protocol import Address
from fewbits.theory import quantities
from fewbits.train import formats
from fewbits.train.emulated import MOST_LINKED
from fewbits.train.references import PLAIN_DDP, is_reference

DEFAULT_OPERATORS = ("none", "fp16-hook", "natural")
LINK_OPERATORS = ("none", "fp16-hook", "natural", "natural:coder=rans", "auto")
LOCAL_OPERATORS = ("none", "natural", "natural:coder=rans")
SGD = "sgd"
CHECKPOINT = "checkpoint.safetensors"
MODEL_NAMES = ("cnn", "mlp", "resnet", "gpt")

_AS_GIVEN = (
    "downlink", "feedback", "collective", "local_steps", "data", "momentum", "seed", "threads",
    "checkpoint", "resume", "nodes",
)  # fmt: skip

# (batch size, learning rate) at which the model learns without tuning.
_USUAL = {"cnn": (64, 0.05), "mlp": (128, 0.1), "resnet": (64, 0.05), "gpt": (32, 0.002)}


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """One comparison; everything but `operators` is common to its runs, so that they are paired."""

    operators: tuple[str, ...]
    downlink: str | None
    feedback: str | None
    collective: str
    aggregator: tuple[str, ...]
    local_steps: int | None
    outer: str | None
    workers: int
    link: str | None
    data: str
    model: str
    epochs: int
    batch_size: int
    lr: float
    momentum: float
    seed: int
    threads: int
    checkpoint: str | None
    resume: bool
    nodes: int | None

    @property
    def ranks_in_node(self) -> int:
        """How many workers share a link: one, if there are no nodes."""
        return 1 if self.nodes is None else self.workers // self.nodes

    def arguments(self, *operators: str) -> list[str]:
        """The command line that gives these settings, for `operators` if any are named."""
        line = [word for spec in operators or self.operators for word in ("--operator", spec)]
        line += [word for address in self.aggregator for word in ("--aggregator", address)]
        for name in self.__slots__:
            value = getattr(self, name)
            if name in ("operators", "aggregator", "resume") or value is None:
                continue
            line += ["--" + name.replace("_", "-"), str(value)]
        return [*line, "--resume"] if self.resume else line

    def common(self, spec: str) -> dict[str, Any]:
        """The settings that a resumed run must share with the run that wrote the checkpoint."""
        names = ("workers", "model", "batch_size", "lr", "momentum", "seed", "local_steps", "outer")
        shared: dict[str, Any] = {name: getattr(self, name) for name in names}
        if not is_reference(spec):
            # The words of the first release, which checkpoints have.
            shared |= {"master": self.downlink, "feedback": self.feedback}
            shared["scheme"] = self.collective
        if self.nodes is not None:  # earlier releases had none
            shared["nodes"] = self.nodes
        return {"operator": spec, "data": formats.kind_of(self.data), **shared}

    def folder(self, spec: str) -> Path | None:
        if self.checkpoint is None:
            return None
        text = spec
        if not is_reference(spec) and spec not in (*presets.PRESETS, AUTO):
            text = _named(spec).spec  # however it was spelled
        name = "".join(c if c.isalnum() or c in "-=.," else "_" for c in text)
        return Path(self.checkpoint) / name


def from_options(options: argparse.Namespace, *, workers: int | None = None) -> TrainSettings:
    """The checked settings; `SpecError` says what makes no sense."""
    kind = formats.kind_of(options.data)
    model = options.model or ("gpt" if kind == "text" else "cnn")
    batch_size, lr = _USUAL[model]
    link = None if options.link in (None, quantities.UNSHAPED) else options.link
    usual: tuple[str, ...] = DEFAULT_OPERATORS if link is None else LINK_OPERATORS
    if options.local_steps is not None:
        usual = LOCAL_OPERATORS
    settings = TrainSettings(
        **{name: getattr(options, name) for name in _AS_GIVEN},
        operators=tuple(options.operator or usual),
        link=link,
        aggregator=tuple(options.aggregator or ()),
        outer=options.outer or (SGD if options.local_steps is not None else None),
        workers=options.workers if workers is None else workers,
        model=model,
        epochs=_usual_epochs(kind, model) if options.epochs is None else options.epochs,
        batch_size=batch_size if options.batch_size is None else options.batch_size,
        lr=lr if options.lr is None else options.lr,
    )
    _check_numbers(settings)
    _check_choices(settings, kind)
    return settings


def _usual_epochs(kind: str, model: str) -> int:
    if kind != "digits":
        return 2
    return 6 if model == "mlp" else 10


def _check_numbers(settings: TrainSettings) -> None:
    for name in ("workers", "epochs", "batch_size", "threads"):
        if getattr(settings, name) < 1:
            raise SpecError(f"--{name.replace('_', '-')} must be at least 1")
    if settings.batch_size % settings.workers:
        raise SpecError(
            f"--batch-size {settings.batch_size} must be a multiple of {settings.workers} workers"
        )
    if not 0 < settings.lr < math.inf:
        raise SpecError(f"--lr must be positive and finite, got {settings.lr}")
    if not 0 <= settings.momentum < 1:
        raise SpecError(f"--momentum must be in [0, 1), got {settings.momentum}")
    if settings.seed < 0:
        raise SpecError(f"--seed must not be negative, got {settings.seed}")


def _check_choices(settings: TrainSettings, kind: str) -> None:
    if (settings.model == "gpt") != (kind == "text"):
        raise SpecError(
            f"--model {settings.model} cannot learn from {settings.data}: gpt is for text"
        )
    if len(set(settings.operators)) < len(settings.operators):
        raise SpecError("an --operator is given twice")
    for spec in settings.operators:
        if is_reference(spec) or spec == AUTO:
            continue
        if not presets.expand(spec, downlink=settings.downlink, feedback=settings.feedback):
            _named(spec)
    if settings.downlink is not None:
        registry.operator(settings.downlink)
    _check_low_rank(settings)
    _check_feedback(settings)
    _check_switch(settings)
    _check_nodes(settings)
    _check_link(settings)
    _check_rounds(settings)
    if settings.resume and settings.checkpoint is None:
        raise SpecError("--resume needs --checkpoint DIR")
    _check_checkpoint(settings)


def _named(spec: str) -> Operator | LowRank:
    """What a spec names that is no preset."""
    return low_rank(spec) or registry.operator(spec)


def _check_low_rank(settings: TrainSettings) -> None:
    """Refuse what the exchanges of factors cannot do, or choose themselves."""
    given = {
        "--downlink": settings.downlink is not None,
        "--feedback": settings.feedback is not None,
        f"--collective {settings.collective}": settings.collective not in ("sharded", "gather"),
        "--nodes": settings.nodes is not None,
        "--local-steps": settings.local_steps is not None,
    }
    for spec in settings.operators:
        if spec == presets.LOW_RANK or low_rank(spec) is not None:
            for name in (name for name, is_given in given.items() if is_given):
                raise SpecError(f"--operator {spec} has exchanges of its own: leave {name} out")


def _check_feedback(settings: TrainSettings) -> None:
    """Refuse operators that the method cannot correct, and momentum in two places."""
    if settings.feedback is None:
        return
    method = feedback(settings.feedback)
    if method.has_momentum and settings.momentum:
        raise SpecError(
            f"--feedback {method} has momentum, and so has the optimizer: add --momentum 0"
        )
    ours = [spec for spec in settings.operators if not is_reference(spec)]
    for spec in ours:
        if spec not in presets.PRESETS and spec != AUTO:
            method.rule(registry.operator(spec), UNIT)
    if settings.downlink:
        method.back(registry.operator(settings.downlink), UNIT)


def _check_switch(settings: TrainSettings) -> None:
    for address in settings.aggregator:
        Address.of(address)
    if settings.collective != SWITCH:
        if settings.aggregator:
            raise SpecError("--aggregator needs --collective switch")
        return
    if settings.feedback is not None or settings.downlink is not None:
        raise SpecError(
            "--collective switch has no --feedback and no --downlink: aggregators round sums"
        )
    if settings.local_steps is not None:
        raise SpecError("--collective switch sums gradients of every step: leave --local-steps out")
    for spec in settings.operators:
        if spec in presets.PRESETS or spec == AUTO:
            raise SpecError(f"--collective switch takes natural, not {spec}")
        if not is_reference(spec):
            check_switched(registry.operator(spec))


def _check_nodes(settings: TrainSettings) -> None:
    if settings.nodes is None:
        return
    if settings.nodes < 1 or settings.workers % settings.nodes:
        raise SpecError(
            f"--nodes {settings.nodes} must divide {settings.workers} workers into equal nodes"
        )
    if settings.collective != "sharded" or settings.local_steps is not None:
        raise SpecError("--nodes has a collective of its own: leave the other and local steps out")


def _check_link(settings: TrainSettings) -> None:
    if settings.link is None:
        return
    quantities.link_rate(settings.link)
    if settings.workers > MOST_LINKED:
        raise SpecError(f"--link has room for {MOST_LINKED} workers, got {settings.workers}")
    if settings.collective == SWITCH:
        raise SpecError(
            "--link has no aggregator: leave --collective switch out, or use fewbits-lab link"
        )


def _check_rounds(settings: TrainSettings) -> None:
    """Refuse options that are for local steps only, and options that local steps do not take."""
    if settings.local_steps is None:
        if settings.outer is not None:
            raise SpecError("--outer needs --local-steps H")
        return
    if settings.local_steps < 1:
        raise SpecError("--local-steps must be at least 1")
    # torch comes with it
    from fewbits.localsgd.outer import outer, refuse_two_momenta

    outer(settings.outer or SGD)
    for spec in settings.operators:
        if spec == AUTO or (is_reference(spec) and spec != PLAIN_DDP):
            raise SpecError(
                f"--operator {spec} is for gradients of every step: leave --local-steps out"
            )
    if settings.feedback is not None:
        refuse_two_momenta(feedback(settings.feedback), outer(settings.outer or SGD))


def _check_checkpoint(settings: TrainSettings) -> None:
    for spec in settings.operators:
        folder = settings.folder(spec)
        if folder is None:
            continue
        there = next(own for own in (folder, *folder.absolute().parents) if os.path.lexists(own))
        if not there.is_dir():
            raise SpecError(f"--checkpoint {settings.checkpoint}: {there} is not a folder")
        if not settings.resume and (folder / CHECKPOINT).exists():
            raise SpecError(f"{folder} holds a checkpoint: add --resume, or name another folder")
    if settings.resume and not Path(settings.checkpoint or "").is_dir():
        raise SpecError(f"no checkpoint to resume from: {settings.checkpoint} is not a folder")
