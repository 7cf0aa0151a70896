"""One interface to the exchange of gradients: plain DDP, a hook of torch, or fewbits."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import fewbits.ddp
from fewbits.session import Report
from fewbits.train import references
from fewbits.train.settings import TrainSettings


class Counts(NamedTuple):
    """Bytes that this rank has sent since the exchange began, and the seconds it took."""

    sent: float
    plain: float
    codec_seconds: float
    wire_seconds: float
    about: dict[str, Any]  # what does not change from step to step, for the results


def nothing() -> None:
    """Do nothing: the exchange happens in the backward pass."""


class Exchange(NamedTuple):
    """`counts` takes the number of steps done since the exchange began, `save` a folder.

    `step` is called after each step of the optimizer, `sync` when all ranks must be equal. The
    memory of a hook of torch is not saved.
    """

    counts: Callable[[int], Counts]
    close: Callable[[], None]
    save: Callable[[Path], None] | None = None
    step: Callable[[], object] = nothing
    sync: Callable[[], None] = nothing


def wrapped(net: torch.nn.Module, spec: str) -> DistributedDataParallel:
    # PowerSGD's chained collectives abort on gloo if there is more than one bucket.
    one_bucket = spec.startswith(references.POWERSGD)
    return DistributedDataParallel(net, bucket_cap_mb=4096 if one_bucket else None)


def attach(
    model: DistributedDataParallel,
    spec: str,
    settings: TrainSettings,
    *,
    steps_done: int,
    memories: Path | None = None,
) -> Exchange:
    """Attach the exchange that `spec` names to a run that resumes after `steps_done` steps."""
    if not references.is_reference(spec):
        return _ours(model, spec, settings, steps_done, memories)
    if spec == references.FP16:
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif spec != references.PLAIN_DDP:
        state = powerSGD_hook.PowerSGDState(
            None,
            matrix_approximation_rank=references.rank_of(spec),
            start_powerSGD_iter=references.PLAIN_STEPS,
            warm_start=True,
            random_seed=settings.seed,
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return _reference(model, spec, settings.ranks_in_node)


def _reference(model: DistributedDataParallel, spec: str, in_node: int) -> Exchange:
    """Bytes by formula; of a ring through nodes one rank in each node sends to another node."""
    shapes = [tuple(p.shape) for p in model.parameters()]
    elements = sum(p.numel() for p in model.parameters())
    workers = dist.get_world_size()
    plain = references.plain_bytes(elements, workers) / in_node
    estimate = references.estimate(spec, shapes, workers)

    def counts(steps: int) -> Counts:
        warm_up = 0 if spec in (references.PLAIN_DDP, references.FP16) else references.PLAIN_STEPS
        uncompressed = min(steps, warm_up)
        compressed = estimate.bytes_per_step / in_node
        sent = uncompressed * plain + (steps - uncompressed) * compressed
        about = _about("estimated", elements, estimate.compressed_elements)
        return Counts(sent, steps * plain, 0.0, 0.0, about)

    return Exchange(counts, lambda: None)


def _ours(
    model: DistributedDataParallel,
    spec: str,
    settings: TrainSettings,
    steps_done: int,
    memories: Path | None,
) -> Exchange:
    with warnings.catch_warnings(record=True) as caught:  # they belong beside the figures
        warnings.simplefilter("always")
        compression = fewbits.ddp.attach(
            model,
            spec,
            settings.downlink,
            feedback=settings.feedback,
            collective=settings.collective,
            aggregators=settings.aggregator,
            seed=settings.seed,
            threads=settings.threads,
            across=_across(settings),
        )
    warned = [str(warning.message) for warning in caught]
    # Rounding is keyed by the step: a resumed run draws what an uninterrupted one would draw.
    compression.step = steps_done
    if compression.feedback is not None and memories is not None:
        compression.load(memories)

    save = compression.save if compression.feedback is not None else None
    return Exchange(lambda _: measured(compression.report(), warned), compression.close, save)


def _across(settings: TrainSettings) -> range | None:
    """Return this rank's group across nodes; the ranks of a node follow each other."""
    if settings.nodes is None:
        return None
    width = settings.ranks_in_node
    return range(dist.get_rank() % width, settings.workers, width)


def measured(report: Report, warned: Sequence[str]) -> Counts:
    about = _about("measured", report.elements, report.compressed_elements)
    about |= {"master": report.downlink, "scheme": report.collective, "exact": dict(report.exact)}
    about |= {"feedback": report.feedback, "memory_bytes": report.memory_bytes}
    about["warnings"] = list(warned)
    if report.nodes:
        about["inside_bytes"] = report.inside_bytes
    if (decision := report.decision) is not None:
        about["auto"] = {"chosen": decision.chosen, "step": decision.step}
    sent = report.payload_bytes + report.header_bytes
    seconds = report.codec_seconds, report.wire_seconds
    return Counts(sent, report.plain_bytes, *seconds, about)


def _about(kind: str, elements: int, compressed: int) -> dict[str, Any]:
    return {
        "bytes_kind": kind,
        "elements": elements,
        "compressed_elements": compressed,
        "compressed_share": compressed / max(elements, 1),
        "master": None,
        "scheme": None,
        "feedback": None,
        "memory_bytes": 0,
        "auto": None,
        "exact": {},
        "warnings": [],
    }
