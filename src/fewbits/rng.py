r"""Counter-based randomness: a 128-bit key names a stream, and any word can be made from its index.

Word $i = 2^{32} h + l$ of the stream with key $(k_0, k_1, k_2, k_3)$, all arithmetic modulo
$2^{32}$:

$$ K_0 = k_0 + m(G h + k_2), \qquad K_1 = k_1 + m(G h + k_3), $$
$$ x = G\,l + K_0, \quad x \leftarrow (x \oplus x{\gg}16)\,A + K_1, \quad
   x \leftarrow (x \oplus x{\gg}15)\,B, \quad w_i = x \oplus x{\gg}16, $$

with $G$ = 9E3779B1, $A$ = 7FEB352D, $B$ = 846CA68B (hexadecimal) and $m$ the lowbias32 finaliser
with the same $A$ and $B$. Key material enters twice: with one key only, two streams would be one
permutation read at shifted places. The second key enters before a shift, so that streams which
share $K_0$ differ by more than a constant. The words are made for rounding, not for secrets.

Keys are derived with BLAKE2b, so a frame that carries a stream's key does not give the user's seed
away.
"""

import os
from dataclasses import dataclass
from hashlib import blake2b
from operator import index

import numpy as np
import numpy.typing as npt

from fewbits.errors import SpecError

STEP = np.uint32(0x9E3779B1)
MULTIPLY_1 = np.uint32(0x7FEB352D)
MULTIPLY_2 = np.uint32(0x846CA68B)
KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Rng:
    """A random stream without state. `fork` names independent streams below it.

    A key must look random, as those of `from_seed`, `fresh` and `fork` do: hand-made keys that
    differ in a few bits give correlated streams.

    >>> import fewbits
    >>> stream = fewbits.Rng.from_seed(7).fork(3)
    >>> stream == fewbits.Rng.from_seed(7).fork(3), stream == fewbits.Rng.from_seed(7)
    (True, False)
    """

    key: bytes

    @classmethod
    def from_seed(cls, seed: int) -> "Rng":
        """The stream of an integer seed."""
        try:
            whole = index(seed)
        except TypeError:
            raise SpecError(f"a seed is a whole number, got {type(seed).__name__}") from None
        return cls(bytes(KEY_BYTES)).fork(whole)

    @classmethod
    def fresh(cls) -> "Rng":
        """A stream from the system's entropy, different at every call."""
        return cls(os.urandom(KEY_BYTES))

    def fork(self, *path: int | str) -> "Rng":
        """The stream named by `path` below this one, for instance `(step, rank, tensor, hop)`."""
        rng = self
        for name in path:
            rng = Rng(rng.child_key(token(name)))
        return rng

    def child_key(self, token: bytes) -> bytes:
        """The key of the stream that `token` names below this one: one step of `fork`."""
        return blake2b(token, key=self.key, digest_size=KEY_BYTES, person=b"fewbits").digest()

    def words(self, first: int, count: int) -> npt.NDArray[np.uint32]:
        """Words `first` to `first + count - 1`: the specification that every native table meets."""
        index = np.uint64(first) + np.arange(count, dtype=np.uint64)
        return self.at((index >> np.uint64(32)).astype(np.uint32), index.astype(np.uint32))

    def at(
        self, high: npt.NDArray[np.uint32], low: npt.NDArray[np.uint32]
    ) -> npt.NDArray[np.uint32]:
        """The words with these indices, given in halves of 32 bits."""
        k0, k1, k2, k3 = np.frombuffer(self.key, dtype="<u4").astype(np.uint32)
        with np.errstate(over="ignore"):
            key_0 = k0 + _mix(high * STEP + k2)
            key_1 = k1 + _mix(high * STEP + k3)
            x = low * STEP + key_0
            x = _folded(x, 16) * MULTIPLY_1 + key_1
            x = _folded(x, 15) * MULTIPLY_2
            return _folded(x, 16)


def token(name: int | str) -> bytes:
    """A path's element as bytes; 1 and "1" differ."""
    return f"{'s' if isinstance(name, str) else 'i'}{name}".encode()


def _folded(x: npt.NDArray[np.uint32], shift: int) -> npt.NDArray[np.uint32]:
    return x ^ (x >> np.uint32(shift))


def _mix(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The lowbias32 finaliser."""
    x = _folded(x, 16) * MULTIPLY_1
    x = _folded(x, 15) * MULTIPLY_2
    return _folded(x, 16)
