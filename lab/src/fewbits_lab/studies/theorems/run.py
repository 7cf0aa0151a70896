"""Every theorem of both papers on measured frames, at the vector where it is tight.

A formula that reproduces says that the arithmetic is right. A row here says that *bytes* do what a
theorem says: frames are made, decoded and counted.
"""

from collections.abc import Callable
from dataclasses import asdict

from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.studies.theorems import convergence, exchanges, levels, natural, optimal
from fewbits_lab.studies.theorems.rows import TheoremRow

_PARTS: tuple[Callable[[StudySettings], list[TheoremRow]], ...] = (
    natural.variance,
    natural.dithering,
    levels.equal_levels,
    exchanges.second_moment,
    convergence.theorem9,
    exchanges.table1,
    optimal.lower_bounds,
    optimal.sparse_dithering,
    optimal.spherical,
    optimal.scaled,
    convergence.total_communication,
)


def rows(settings: StudySettings, tick: Tick) -> list[TheoremRow]:
    """All rows, paper by paper; a finished part is not computed again."""
    found = []
    for number, part in enumerate(_PARTS, 1):
        name = part.__name__
        kept = settings.parts.find(name)
        if kept is None:
            made = part(settings)
            settings.parts.add(name, [asdict(row) for row in made])
        else:
            made = [TheoremRow(**row) for row in kept]
        found += made
        tick(number / len(_PARTS))
    return found
