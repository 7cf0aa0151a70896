"""What frames of one operator, format and shape have in common, found once and kept.

A plan has the header, the sections' sizes and, where the operator is one native row, the recipe by
which a single native call writes or reads a whole frame.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from fewbits.backend import frames
from fewbits.backend.frames import FrameRecipe, SectionSizes
from fewbits.backend.library import MAX_DIMENSIONS
from fewbits.core.operator import Operator
from fewbits.errors import EncodeError
from fewbits.reference.formats import Format
from fewbits.rng import Rng
from fewbits.wire.frame import CHECKSUM_SIZE, VERSION, Header
from fewbits.wire.sections import Coded, Section

_KEPT = 1024  # plans that are kept


class FramePlan(NamedTuple):
    """The largest frame of an operator, and how to write it."""

    operator: Operator
    layout: tuple[Section, ...]
    header: Header
    encoded: bytes  # the header's bytes
    room: int  # bytes of the frame
    elements: int
    recipe: FrameRecipe | None

    @property
    def reads(self) -> bool:
        """Whether one native call can read such a frame."""
        return self.recipe is not None and self.recipe.reads and self.elements > 0

    def key(self, stream: bytes) -> bytes:
        """The key of a row's own stream, below the frame's."""
        fork = self.recipe.fork if self.recipe else None
        return stream if fork is None else Rng(stream).child_key(fork)


@lru_cache(_KEPT)
def plan_of(operator: Operator, format: Format, shape: tuple[int, ...]) -> FramePlan:
    """The plan for vectors of a format and shape."""
    if len(shape) > MAX_DIMENSIONS:
        raise EncodeError(
            f"{len(shape)} dimensions, at most {MAX_DIMENSIONS} are supported: reshape first"
        )
    count = math.prod(shape)
    layout = operator.layout(count, format)
    lengths = tuple(section.size for section in layout)
    version = max((section.oldest for section in layout), default=VERSION)
    header = Header(format, shape, operator.stages, lengths, version=version)
    encoded = header.encode()
    own = None
    if not _has_own_code(operator):
        sizes = [SectionSizes(own.least, own.size, isinstance(own, Coded)) for own in layout]
        own = frames.recipe(operator.kernel(count, format), format, count, sizes, encoded)
    room = len(encoded) + sum(lengths) + CHECKSUM_SIZE
    return FramePlan(operator, layout, header, encoded, room, count, own)


def _has_own_code(operator: Operator) -> bool:
    cls = type(operator)
    return cls.encode is not Operator.encode or cls.decode is not Operator.decode
