"""Measures how long a step takes, and how long it waits for communication."""

import time
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class StepClock:
    """Seconds of every step, and the seconds between its last gradient and the end of its backward.

    In between nothing is left to compute, and DDP waits for messages. That holds for plain DDP, for
    torch's hooks and for ours alike, so the same clock serves all of them. `worked` has the seconds
    that a processor worked for the calling thread: the rest of the time for computing it was lent
    to others.
    """

    def __init__(self, net: nn.Module) -> None:
        self.seconds: list[float] = []
        self.blocked: list[float] = []
        self.worked: list[float] = []
        self._start = self._last_gradient = self._worked_before = 0.0
        for parameter in net.parameters():
            register: Any = parameter.register_post_accumulate_grad_hook  # untyped in torch
            register(self._gradient_ready)

    def start(self) -> None:
        self._worked_before = time.thread_time()
        self._start = self._last_gradient = time.perf_counter()

    def backward_done(self) -> None:
        self.blocked.append(time.perf_counter() - self._last_gradient)

    def standing(self, work: Callable[[], object]) -> None:
        """Do `work` and count its time as waiting."""
        began = time.perf_counter()
        work()
        self.blocked[-1] += time.perf_counter() - began

    def stop(self) -> None:
        self.seconds.append(time.perf_counter() - self._start)
        self.worked.append(time.thread_time() - self._worked_before)

    def _gradient_ready(self, _parameter: Tensor) -> None:
        self._last_gradient = time.perf_counter()
