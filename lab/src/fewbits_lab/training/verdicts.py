"""Verdicts on rows of training: sentences, and the paper's claims that they decide."""

import statistics
from collections.abc import Sequence

from fewbits_lab.experiment import Claim
from fewbits_lab.training import paired, plan
from fewbits_lab.training.paired import Difference, diverged, fewer_bytes, last, points
from fewbits_lab.training.rows import TrainingRow

_PAPER = "natural"
_PROMISED = 32 / 9
_UNDECIDED = (
    "the interval reaches beyond {:g} point below, and does not exclude 0; some {:,} seeds would "
    "decide it"
)
_NEITHER = (
    "0 is in the interval; rounding is not what limits runs as short as these; some {:,} seeds "
    "would decide it, if the mean stays"
)
_HIGHER = "the test loss is higher, its interval excludes 0"
_SHORT = "a few epochs of a part of the data, where noise has not averaged out"


def findings(rows: Sequence[TrainingRow]) -> list[str]:
    """Every operator beside plain training, those that lose among them; then what was not run."""
    said = [_beside_plain(rows, name) for name in _ran(rows) if name != plan.TRAINING_PLAIN]
    plain = last(rows, plan.TRAINING_PLAIN)
    if plain:
        first = next(iter(plain.values()))
        accuracy = 100 * statistics.fmean(row.accuracy or 0 for row in plain.values())
        said.insert(
            0,
            f"{first.model}, {first.data}: plain training ends at {accuracy:.2f} % after "
            f"{first.epoch} epochs, {len(plain)} seeds.",
        )
    return said + [f"{row.model}, {row.data}: {row.status}." for row in rows if not row.ran]


def _beside_plain(rows: Sequence[TrainingRow], name: str) -> str:
    bytes_ = f"{fewer_bytes(rows, name, plan.TRAINING_PLAIN):.2f} times fewer bytes"
    seconds = _times(rows, name)
    found, loss = points(rows, name, plan.TRAINING_PLAIN), _loss(rows, name)
    if found is None or loss is None:
        lost = diverged(rows, name)
        return f"{name}: {lost} of {len(last(rows, name))} runs diverged; {bytes_}."
    return (
        f"{name}: {found.text('points')}; test loss {loss.mean:+.3f} ± {loss.half:.3f}; {bytes_}, "
        f"{seconds:.2f} times as fast on 1 Gbit/s (modelled)."
    )


def _loss(rows: Sequence[TrainingRow], name: str) -> Difference | None:
    return paired.difference(rows, name, plan.TRAINING_PLAIN, "test_loss")


def _times(rows: Sequence[TrainingRow], name: str) -> float:
    plain, own = (
        statistics.fmean(row.modelled_seconds or 0 for row in last(rows, one).values())
        for one in (plan.TRAINING_PLAIN, name)
    )
    return plain / own


def claims(rows: Sequence[TrainingRow]) -> list[Claim]:
    """The claims whose operators are among the rows; claims that were not run stay undecided."""
    ran = set(_ran(rows))
    found = [_unrun(row) for row in rows if not row.ran]
    if plan.TRAINING_NATURAL in ran:
        found += [_same_accuracy(rows), _fewer_bits(rows)]
    if {plan.NATURAL_DITHERING, plan.STANDARD_DITHERING} <= ran:
        found.append(_equal_bits(rows))
    if plan.FINE_DITHERING in ran:
        found.append(_half_the_bits(rows))
    if plan.RANDOM in ran:
        found.append(_on_sparse(rows))
    if plan.TOP in ran:
        found.append(_on_top(rows))
    return found


def _same_accuracy(rows: Sequence[TrainingRow]) -> Claim:
    text, agrees, why = _judged(points(rows, plan.TRAINING_NATURAL, plan.TRAINING_PLAIN))
    loss = _loss(rows, plan.TRAINING_NATURAL)
    if agrees and loss is not None and paired.lower(loss) is False:
        agrees, why = False, _HIGHER
    beside = f"; test loss {loss.mean:+.3f} ± {loss.half:.3f}" if loss else ""
    return Claim(
        _PAPER, "experiments; " + _about(rows), "natural compression both ways loses no accuracy",
        "the same accuracy", text + beside, agrees, why,
    )  # fmt: skip


def _fewer_bits(rows: Sequence[TrainingRow]) -> Claim:
    times = fewer_bytes(rows, plan.TRAINING_NATURAL, plan.TRAINING_PLAIN)
    agrees = times >= 0.95 * _PROMISED
    why = "" if agrees else "vectors (biases, norms) go exact, and every message has a header"
    return Claim(
        _PAPER, "Section 1; " + _about(rows), "9 bits a value in place of 32, both ways",
        f"{_PROMISED:.2f} times fewer", f"{times:.2f} times fewer bytes, headers included",
        agrees, why,
    )  # fmt: skip


def _equal_bits(rows: Sequence[TrainingRow]) -> Claim:
    """Smaller variance should show in the loss: decided by its interval."""
    names = plan.NATURAL_DITHERING, plan.STANDARD_DITHERING
    found = paired.difference(rows, *names, "test_loss")
    agrees: bool | None
    neither = ""
    if found is None:
        ours, theirs = (diverged(rows, name) for name in names)
        text, agrees = f"diverged: {ours} runs against {theirs}", ours < theirs
    else:
        text, agrees = f"test loss {found.text(digits=3)}", paired.lower(found)
        neither = _NEITHER.format(found.seeds_for(abs(found.mean)))
    reasons = {True: "", False: "standard dithering does better here", None: neither}
    return Claim(
        _PAPER, "Theorem 8; " + _about(rows),
        "natural dithering beats standard dithering with as many levels",
        "smaller variance at equal bits", text, agrees, reasons[agrees],
    )  # fmt: skip


def _half_the_bits(rows: Sequence[TrainingRow]) -> Claim:
    return _pair(
        rows, (plan.NATURAL_DITHERING, plan.FINE_DITHERING), "experiments, VGG11; ",
        "natural dithering with 8 levels and a compressing master trains as standard dithering "
        "with 2⁷ levels", "the same per epoch, about half the bits", 2.0,
    )  # fmt: skip


def _on_sparse(rows: Sequence[TrainingRow]) -> Claim:
    return _pair(
        rows, (plan.RANDOM_NATURAL, plan.RANDOM), "experiments, VGG11; ",
        "natural compression after random sparsification, 10 %", "the same per epoch, fewer bits",
        1.0,
    )  # fmt: skip


def _on_top(rows: Sequence[TrainingRow]) -> Claim:
    return _pair(
        rows, (plan.TOP_NATURAL, plan.TOP), "experiments, ResNet18; ",
        "natural compression after top-k (here 10 %, with error feedback)",
        "37.5 % less traffic at the same accuracy", 1 / (1 - 0.375),
    )  # fmt: skip


def _pair(
    rows: Sequence[TrainingRow],
    names: tuple[str, str],
    where: str,
    claim: str,
    claimed: str,
    least: float,
) -> Claim:
    """The same accuracy as the other, and at least so many times fewer bytes."""
    text, agrees, why = _judged(points(rows, *names))
    times = fewer_bytes(rows, *names)
    if times < least:
        agrees, why = False, f"bytes are {times:.2f} times fewer, not {least:.2f}"
    ours = f"{text}; {times:.2f} times fewer bytes"
    return Claim(_PAPER, where + _about(rows), claim, claimed, ours, agrees, why)


def _judged(found: Difference | None) -> tuple[str, bool | None, str]:
    """Ours, whether it agrees, and why not."""
    if found is None:
        return "a run diverged", False, "the learning rate is too large for this noise"
    agrees = paired.same(found)
    open_ = _UNDECIDED.format(paired.MARGIN, found.seeds_for(paired.MARGIN))
    reasons = {True: "", False: f"worse here: {_SHORT}", None: open_}
    return found.text("points"), agrees, reasons[agrees]


def _unrun(row: TrainingRow) -> Claim:
    return Claim(
        _PAPER, f"experiments, {row.model}, {row.data}", "natural compression loses no accuracy",
        "the same accuracy", "not run", None, row.status,
    )  # fmt: skip


def _ran(rows: Sequence[TrainingRow]) -> list[str]:
    return list(dict.fromkeys(row.operator for row in rows if row.ran))


def _about(rows: Sequence[TrainingRow]) -> str:
    first = next(row for row in rows if row.ran)
    return f"ours: {first.model}, {first.data}"
