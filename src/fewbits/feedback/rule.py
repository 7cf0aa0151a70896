r"""The arithmetic of a memory, for one operator on vectors of one size.

There are two kinds. An **error** memory $e$ holds the lost part: the message is $g + e$, the
receiver takes $s\,C(g + e)$, and $e^+ = g + e - s\,C(g + e)$. Both sides know a **shift** $h$: the
message is $g - h$, the receiver's estimate is $h + \nu\,C(g - h)$, and both move to
$h^+ = h + \lambda\,C(g - h)$. All of this is linear, so the receiver may take the mean of many
senders' messages for one message; its own $h$ is then the mean of theirs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Rule:
    r"""A memory has `rows` rows: the error or the shift, and with `momentum` the momentum.

    `step` is $\lambda$ and `scale` is $\nu$; for an error memory both are $s$. With momentum
    $u^+ = \beta u + g$ takes the place of $g$. With `decay` $\delta$ an error memory counts as
    $\delta e$ when the message is made. What is sent `masks` the momentum: it begins anew there.
    """

    shifts: bool
    step: float = 1.0
    scale: float = 1.0
    momentum: float = 0.0
    decay: float = 1.0
    masks: bool = False

    @property
    def rows(self) -> int:
        return 1 + (self.momentum > 0)

    def message(self, g: Array, now: Array, then: Array) -> None:
        """Turn `g` into the message to compress; the momentum goes to `then`."""
        if self.shifts:
            g -= now[0]
            return
        if self.momentum:
            np.multiply(now[1], now.dtype.type(self.momentum), out=then[1])
            then[1] += g
            g[...] = then[1]
        if self.decay == 1:
            g += now[0]
        else:
            g += now[0] * now.dtype.type(self.decay)

    def keep(self, message: Array, now: Array, then: Array) -> None:
        """Write the sender's memory to `then`, whose row 0 holds the decoded message before."""
        own = then[0]
        if self.masks:
            then[1][own != 0] = 0
        if self.shifts:
            _scale(own, self.step)
            own += now[0]
        elif self.step == 1:
            np.subtract(message, own, out=own)
        else:
            _scale(own, -self.step)
            own += message

    def receive(self, message: Array, now: Array, then: Array) -> None:
        """Turn a decoded message, or the mean of several, into the estimate.

        With an error memory the receiver keeps nothing: `now` and `then` are not touched.
        """
        if self.shifts:
            np.multiply(message, message.dtype.type(self.step), out=then[0])
            then[0] += now[0]
            _scale(message, self.scale)
            message += now[0]
        else:
            _scale(message, self.scale)


def _scale(values: Array, factor: float) -> None:
    if factor != 1:
        values *= values.dtype.type(factor)
