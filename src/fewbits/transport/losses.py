"""Which ranks an exchange has lost.

A rank that leaves because it has lost another one closes its connections like one that died. So it
says a word before, to every rank: whoever is gone without a word is to blame, and whoever has only
not answered yet is named as that. Receives for these words are posted from the start, because gloo
then sends at once, also to a rank that is busy and will look much later.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fewbits.errors import PeerError

_MOMENT = 1.0  # seconds
_LEAST = 0.05  # seconds for what has most likely come already

PostWord = Callable[[Tensor, int], Any]
"""Begins to send one byte to a rank, or to receive one from it."""


class PostedMail(NamedTuple):
    """Messages under way, and the ranks that were lost when they were posted."""

    timeout: float
    started: list[tuple[int, Any]]  # ranks and what is under way to or from them, or None
    lost: dict[int, str]

    def wait(self) -> None:
        """Wait until all is done, or for `timeout` seconds from now.

        Once a rank is lost, the others get only a moment, because they may have failed with it.
        """
        deadline = time.monotonic() + self.timeout
        late: set[int] = set()
        for rank, work in self.started:
            if work is None or rank in self.lost:
                continue
            hurried = bool(self.lost)
            patience = _LEAST if hurried else max(deadline - time.monotonic(), _LEAST)
            try:
                work.wait(timedelta(seconds=patience))
            except RuntimeError as error:
                # Not by the clock alone: gloo may give up a moment before the deadline.
                if hurried and _is_timeout(error) and time.monotonic() < deadline:
                    late.add(rank)
                else:
                    self.lost[rank] = reason(error, self.timeout)
        if self.lost:
            raise PeerError(f"lost {_told(self.lost, late)}")


class Losses(NamedTuple):
    """Ranks that closed their connections without a word, with the reason, and silent ones."""

    closed: dict[int, str]
    silent: list[int]

    @property
    def ranks(self) -> list[int]:
        """The ranks to look at: silent ones only if nobody is surely gone."""
        return sorted(self.closed) or self.silent

    def explained(self, error: RuntimeError, timeout: float) -> PeerError:
        """The error to raise for a collective that has failed with `error`."""
        if self.closed:
            return PeerError(f"lost {_told(self.closed, self.silent)}")
        why = reason(error, timeout)
        if self.silent and _is_timeout(error):
            return PeerError(f"lost {_told(dict.fromkeys(self.silent, why), ())}")
        whom = (
            f"some rank, and no answer yet from ranks {self.silent}" if self.silent else "some rank"
        )
        return PeerError(f"lost {whom}: {why}")


class LastWords:
    """One byte from and to each rank, which says that it leaves because another one is lost."""

    def __init__(self, others: Iterable[int], receive: PostWord, send: PostWord) -> None:
        self._heard = {rank: torch.zeros(1, dtype=torch.uint8) for rank in others}
        self._under_way = {rank: receive(byte, rank) for rank, byte in self._heard.items()}
        self._send, self._has_said = send, False

    def say(self) -> None:
        """Tell all ranks, once, that this one is about to leave and not to blame."""
        if self._has_said:
            return
        self._has_said = True
        word, sent = torch.ones(1, dtype=torch.uint8), []
        for rank in self._heard:
            with suppress(RuntimeError):  # one of them is lost
                sent.append(self._send(word, rank))
        for work in sent:
            with suppress(RuntimeError):
                work.wait(timedelta(seconds=_MOMENT))

    def listen(self) -> Losses:
        """Wait a moment for the words of all ranks, which breaks connections to silent ones."""
        deadline = time.monotonic() + _MOMENT
        closed: dict[int, str] = {}
        for rank, work in self._under_way.items():
            try:
                work.wait(timedelta(seconds=max(deadline - time.monotonic(), _LEAST)))
            except RuntimeError as error:
                if not _is_timeout(error):
                    closed[rank] = reason(error, _MOMENT)
        wordless = {rank for rank, byte in self._heard.items() if not byte[0]}
        closed = {rank: why for rank, why in closed.items() if rank in wordless}
        return Losses(closed, sorted(wordless - set(closed)))


def reason(error: RuntimeError, timeout: float) -> str:
    """The part of gloo's error that helps a user."""
    if _is_timeout(error):
        return f"no answer within {timeout:g} s (it stopped, or it is far behind)"
    text = str(error).splitlines()[0].partition("] ")[2].partition(". ")[0]  # no path, no advice
    return f"its connection closed (it ended or was killed): {text or error}"


def _told(lost: dict[int, str], late: Iterable[int]) -> str:
    reasons = [f"rank {rank}: {lost[rank]}" for rank in sorted(lost)]
    waiting = sorted(set(late) - set(lost))
    return "; ".join(reasons + ([f"no answer yet from ranks {waiting}"] if waiting else []))


def _is_timeout(error: RuntimeError) -> bool:
    return "imed out" in str(error) or "imeout" in str(error)
