"""Random streams whose words native code makes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fewbits.backend import library
from fewbits.rng import Rng


@dataclass(frozen=True, slots=True)
class FastRng(Rng):
    """The same stream, with words made by native code."""

    def words(self, first: int, count: int) -> npt.NDArray[np.uint32]:
        return library.words(self.key, first, count)
