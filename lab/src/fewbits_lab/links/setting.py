"""A setting to measure: a model's size, ranks, and the link between them."""

import math
from dataclasses import dataclass

from fewbits.errors import SpecError
from fewbits.theory import quantities

MOST_RANKS = 64
_FLOAT_BITS = 32
_MOST_LATENCY = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class ShapedLink:
    """Every rank's link: bits a second in each direction, seconds one way, share of packets lost.

    Without a rate the link is as fast as the machine.
    """

    rate: float | None
    latency: float = 0.0
    loss: float = 0.0

    def __str__(self) -> str:
        words = ["unshaped" if self.rate is None else quantities.rate_text(self.rate, digits=6)]
        if self.latency:
            words.append(f"{1e3 * self.latency:g} ms")
        if self.loss:
            words.append(f"{100 * self.loss:g} % lost")
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class LinkSetting:
    """One table of the results: contenders take turns, `repeats` times after `warm_up` steps."""

    params: int
    ranks: int
    link: ShapedLink
    repeats: int
    warm_up: int

    def __post_init__(self) -> None:
        if not 2 <= self.ranks <= MOST_RANKS:
            raise SpecError(f"ranks must be 2 to {MOST_RANKS}, got {self.ranks}")

    def __str__(self) -> str:
        return f"{self.link}, {self.ranks} ranks"

    @property
    def plain_seconds(self) -> float:
        """Seconds of a ring all-reduce of the gradient on the link, by formula."""
        sent = self.params * _FLOAT_BITS * 2 * (self.ranks - 1) / self.ranks
        wire = sent / self.link.rate if self.link.rate else 0.0
        return wire + 2 * (self.ranks - 1) * self.link.latency

    @property
    def patience(self) -> float:
        """Seconds without a word from the ranks after which they are given up."""
        return 120.0 + 20 * self.plain_seconds / (1 - self.link.loss)


def latency(text: str) -> float:
    """One way from rank to rank: `5ms`; `0` needs no unit."""
    value = 0.0 if text == "0" else quantities.seconds(text)
    if value > _MOST_LATENCY:
        raise SpecError(f"a latency must be at most {_MOST_LATENCY:g} s, got {text!r}")
    return value


def loss(text: str) -> float:
    """A share of packets, `0.001` or `0.1%`, below a half."""
    number, percent = (text[:-1], 100) if text.endswith("%") else (text, 1)
    try:
        value = float(number) / percent
    except ValueError:
        value = math.nan
    if not 0 <= value < 0.5:
        raise SpecError(
            f"expected a share of packets below 0.5 such as 0.001 or 0.1%, got {text!r}"
        )
    return value
