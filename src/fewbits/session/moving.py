"""Memories when ranks are lost or come: each goes to the rank that needs it now.

What a rank has lost of its own gradients stays with it. What the way back has lost stays with the
owner of a unit, and owners change with the number of ranks. Methods whose ranks know each other's
shifts cannot do without any rank and are refused.
"""

from fewbits.collectives.parcels import packed, swapped, unpacked
from fewbits.errors import SpecError
from fewbits.feedback.store import MASTER
from fewbits.session.adapter import SessionComm
from fewbits.session.memories import MemoryShapes
from fewbits.session.routing import Routing
from fewbits.session.state import SavedState


def refuse_common(routing: Routing) -> None:
    """Refuse memories that say something of all ranks' memories."""
    feedback = routing.feedback
    if routing.low_rank is not None:
        raise SpecError(
            f"{routing.low_rank} has factors that all ranks know: with on_failure='continue' name "
            "an operator such as 'natural', or 'tiny'"
        )
    if feedback is not None and feedback.shifts:
        raise SpecError(
            f"feedback {feedback} needs the shifts of all ranks, and on_failure='continue' loses "
            "those of a lost one: use 'ef14', or an operator without feedback"
        )


def moved(comm: SessionComm, memories: SavedState, shapes: MemoryShapes) -> tuple[SavedState, int]:
    """What this rank needs of the memories of all ranks; every rank must call this.

    Also how many values have no place: with another number of ranks units may have another size.
    """
    needed = [shapes.needed(rank, comm.size) for rank in range(comm.size)]
    possible = needed[comm.rank]
    own = {key: array for key, array in memories.items() if key in possible}
    theirs = {
        key: array
        for key, array in memories.items()
        if key.startswith(f"{MASTER}/") and key not in own
    }
    parcels = [packed({key: theirs[key] for key in theirs if key in each}) for each in needed]
    for content in swapped(comm, parcels):
        own |= unpacked(content)
    fits = {key: array for key, array in own.items() if array.shape == possible[key]}
    return fits, sum(own[key].size for key in own.keys() - fits.keys())


def lost_values(shapes: MemoryShapes, rank: int, ranks: int) -> int:
    """How many values one rank among so many remembers."""
    return sum(rows * count for rows, count in shapes.needed(rank, ranks).values())
