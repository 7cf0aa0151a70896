"""What a comparison is asked to do: options of the command line as one immutable value."""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewbits import presets, registry
from fewbits.errors import SpecError
from fewbits.feedback import feedback
from fewbits.links.aggregator import Address
from fewbits.outer import outer
from fewbits.schemes import switched
from fewbits.schemes.payload import CHUNK
from fewbits.train import formats
from fewbits.train.references import NONE, is_reference

OPERATORS = ("none", "fp16-hook", "natural")
SWITCH = "switch"
SCHEMES = ("sharded", "star", "gather", SWITCH)
LOCAL_OPERATORS = ("none", "natural", "natural:coder=rans")
SGD = "sgd"
AUTO = "auto"
CHECKPOINT = "checkpoint.safetensors"
MODELS = ("cnn", "resnet", "gpt")

# (batch size, learning rate) at which the model learns without tuning.
_USUAL = {"cnn": (64, 0.05), "resnet": (64, 0.05), "gpt": (32, 0.002)}


@dataclass(frozen=True, slots=True)
class Settings:
    """One comparison; everything but `operators` is common to its runs, so that they are paired."""

    operators: tuple[str, ...]
    master: str | None
    feedback: str | None
    scheme: str
    aggregator: tuple[str, ...]
    local_steps: int | None
    outer: str | None
    workers: int
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
        """What a resumed run must share with the run that wrote the checkpoint."""
        names = ("workers", "model", "batch_size", "lr", "momentum", "seed", "local_steps", "outer")
        shared: dict[str, Any] = {name: getattr(self, name) for name in names}
        if not is_reference(spec):
            shared |= {"master": self.master, "feedback": self.feedback, "scheme": self.scheme}
        return {"operator": spec, "data": formats.kind_of(self.data), **shared}

    def folder(self, spec: str) -> Path | None:
        """Where the checkpoints of one operator's run are kept."""
        if self.checkpoint is None:
            return None
        text = spec
        if not is_reference(spec) and spec not in (*presets.PRESETS, AUTO):
            text = registry.operator(spec).spec  # however it was spelled
        name = "".join(c if c.isalnum() or c in "-=.," else "_" for c in text)
        return Path(self.checkpoint) / name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that make a `Settings`."""
    add = parser.add_argument
    add("--operator", action="append", metavar="SPEC", help="repeatable; none, fp16-hook, "
        "powersgd:rank=4, tiny or a spec (default: none, fp16-hook and natural)")  # fmt: skip
    add("--master", metavar="SPEC", help="operator of the way back (default: the "
        "same if it is unbiased or has feedback, else natural, coded if it is)")  # fmt: skip
    add("--feedback", metavar="METHOD", help="memory of what operators lose: ef14, "
        "ef14:momentum=0.9, ef21, diana or ef-bv (default: none)")  # fmt: skip
    add("--scheme", choices=SCHEMES, default="sharded", help="default: sharded")
    add("--aggregator", action="append", metavar="HOST:PORT", help="repeatable; a running "
        "`fewbits switch` for --scheme switch (default: one on this machine)")  # fmt: skip
    add("--local-steps", type=int, metavar="H", help="train alone for H steps, then exchange what "
        "has changed (default: exchange gradients in every step)")  # fmt: skip
    add("--outer", metavar="RULE", help="what becomes of the mean change: sgd averages, nesterov "
        "is DiLoCo's (default: sgd)")  # fmt: skip
    add("--workers", type=int, default=2, metavar="N", help="local processes (default: 2)")
    add("--data", default="digits", metavar="DIR", help="digits, or a folder with MNIST's idx "
        "files, CIFAR-10 as npz or input.txt (default: digits)")  # fmt: skip
    add("--model", choices=MODELS, help="default: cnn, for text gpt")
    add("--epochs", type=int, metavar="N", help="default: 10 on digits, else 2")
    add("--batch-size", type=int, metavar="N", help="of all workers together (default: 64; gpt 32)")
    add("--lr", type=float, metavar="X", help="learning rate (default: 0.05; gpt 0.002)")
    add("--momentum", type=float, default=0.9, metavar="X", help="default: 0.9")
    add("--seed", type=int, default=0, metavar="N", help="default: 0")
    add("--threads", type=int, default=1, metavar="N", help="codec threads (default: 1)")
    add("--checkpoint", metavar="DIR", help="keep every epoch's state here")
    add("--resume", action="store_true", help="go on from the checkpoint")
    add("--report", metavar="OUT.html", help="write a page, and its numbers as JSON beside it")


def from_options(options: argparse.Namespace, *, workers: int | None = None) -> Settings:
    """The checked settings; `SpecError` says what makes no sense."""
    kind = formats.kind_of(options.data)
    model = options.model or ("gpt" if kind == "text" else "cnn")
    batch_size, lr = _USUAL[model]
    settings = Settings(
        operators=tuple(options.operator or _usual_operators(options)),
        master=options.master,
        feedback=options.feedback,
        scheme=options.scheme,
        aggregator=tuple(options.aggregator or ()),
        local_steps=options.local_steps,
        outer=options.outer or (SGD if options.local_steps is not None else None),
        workers=options.workers if workers is None else workers,
        data=options.data,
        model=model,
        epochs=(10 if kind == "digits" else 2) if options.epochs is None else options.epochs,
        batch_size=batch_size if options.batch_size is None else options.batch_size,
        lr=lr if options.lr is None else options.lr,
        momentum=options.momentum,
        seed=options.seed,
        threads=options.threads,
        checkpoint=options.checkpoint,
        resume=options.resume,
    )
    _check_numbers(settings)
    _check_choices(settings, kind)
    return settings


def _check_numbers(settings: Settings) -> None:
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


def _check_choices(settings: Settings, kind: str) -> None:
    if (settings.model == "gpt") != (kind == "text"):
        raise SpecError(
            f"--model {settings.model} cannot learn from {settings.data}: gpt is for text"
        )
    if len(set(settings.operators)) < len(settings.operators):
        raise SpecError("an --operator is given twice")
    for spec in settings.operators:
        if is_reference(spec) or spec == AUTO:
            continue
        if not presets.expand(spec, master=settings.master, feedback=settings.feedback):
            registry.operator(spec)
    if settings.master is not None:
        registry.operator(settings.master)
    _check_feedback(settings)
    _check_switch(settings)
    _check_rounds(settings)
    if settings.resume and settings.checkpoint is None:
        raise SpecError("--resume needs --checkpoint DIR")
    _check_checkpoint(settings)


def _check_feedback(settings: Settings) -> None:
    """Before anything is trained: what the method cannot correct, and momentum twice."""
    if settings.feedback is None:
        return
    method = feedback(settings.feedback)
    if method.has_momentum and settings.momentum:
        raise SpecError(
            f"--feedback {method} has momentum, and so has the optimizer: add --momentum 0"
        )
    ours = [spec for spec in settings.operators if not is_reference(spec)]
    for spec in [*ours, *([settings.master] if settings.master else [])]:
        if spec not in presets.PRESETS and spec != AUTO:
            method.rule(registry.operator(spec), CHUNK)


def _check_switch(settings: Settings) -> None:
    for address in settings.aggregator:
        Address.of(address)
    if settings.scheme != SWITCH:
        if settings.aggregator:
            raise SpecError("--aggregator needs --scheme switch")
        return
    if settings.feedback is not None or settings.master is not None:
        raise SpecError("--scheme switch has no --feedback and no --master: aggregators round sums")
    if settings.local_steps is not None:
        raise SpecError("--scheme switch sums gradients of every step: leave --local-steps out")
    for spec in settings.operators:
        if spec in presets.PRESETS or spec == AUTO:
            raise SpecError(f"--scheme switch takes natural, not {spec}")
        if not is_reference(spec):
            switched.check(registry.operator(spec))


def _check_rounds(settings: Settings) -> None:
    """What makes sense for local steps only, and what does not make sense for them."""
    if settings.local_steps is None:
        if settings.outer is not None:
            raise SpecError("--outer needs --local-steps H")
        return
    if settings.local_steps < 1:
        raise SpecError("--local-steps must be at least 1")
    outer(settings.outer or SGD)
    for spec in settings.operators:
        if spec == AUTO or (is_reference(spec) and spec != NONE):
            raise SpecError(
                f"--operator {spec} is for gradients of every step: leave --local-steps out"
            )
    if settings.feedback is not None and feedback(settings.feedback).has_momentum:
        raise SpecError(f"--feedback {settings.feedback}: with --local-steps use --outer nesterov")


def _usual_operators(options: argparse.Namespace) -> tuple[str, ...]:
    return OPERATORS if options.local_steps is None else LOCAL_OPERATORS


def _check_checkpoint(settings: Settings) -> None:
    for spec in settings.operators:
        folder = settings.folder(spec)
        if folder is not None and not settings.resume and (folder / CHECKPOINT).exists():
            raise SpecError(f"{folder} holds a checkpoint: add --resume, or name another folder")
    if settings.resume and not Path(settings.checkpoint or "").is_dir():
        raise SpecError(f"no checkpoint to resume from: {settings.checkpoint} is not a folder")
