"""Whether replies are made alike: Flower's strategies give up a round whose replies differ."""

from collections import Counter
from collections.abc import Hashable, Sequence

from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict


def unlike_most(makes: Sequence[Hashable]) -> set[int]:
    """Places of those that are not made like most.

    With a tie nobody knows who is right: those like the first stay.
    """
    if not makes:
        return set()
    usual = Counter(makes).most_common(1)[0][0]  # of equal counts, the one met first
    return {place for place, make in enumerate(makes) if make != usual}


def make_of(content: RecordDict) -> Hashable:
    """Names, dtypes and shapes of all that strategies combine.

    But for vectors of bytes: they are files, such as trees, and have lengths of their own.
    """
    found: list[tuple[object, ...]] = []
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            found += [(name, key, array.dtype, _extents(array)) for key, array in record.items()]
        elif isinstance(record, MetricRecord):
            found.append((name,))
            for key, value in record.items():
                found.append((name, key, len(value) if isinstance(value, list) else -1))
    return tuple(sorted(found, key=repr))


def _extents(array: Array) -> tuple[int, ...] | int:
    is_file = array.dtype == "uint8" and len(array.shape) == 1
    return 1 if is_file else tuple(array.shape)
