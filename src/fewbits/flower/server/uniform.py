"""Whether replies are made alike: Flower's strategies give up a round whose replies differ."""

from collections import Counter
from collections.abc import Sequence

from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict


def unlike_most(contents: Sequence[RecordDict]) -> set[int]:
    """Places of those that are not made like most.

    With a tie nobody knows who is right: those like the first stay.
    """
    shapes = [_shape(content) for content in contents]
    if not shapes:
        return set()
    usual = Counter(shapes).most_common(1)[0][0]  # of equal counts, the one met first
    return {place for place, shape in enumerate(shapes) if shape != usual}


def _shape(content: RecordDict) -> tuple[object, ...]:
    """Names, dtypes and shapes of all that strategies combine.

    But for vectors of bytes: they are files, such as trees, and have lengths of their own.
    """
    found: list[tuple[object, ...]] = []
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            found += [
                (name, key, array.dtype, len(array.shape) if _is_file(array) else array.shape)
                for key, array in record.items()
            ]
        elif isinstance(record, MetricRecord):
            found.append((name,))
            for key, value in record.items():
                found.append((name, key, len(value) if isinstance(value, list) else -1))
    return tuple(sorted(found, key=repr))


def _is_file(array: Array) -> bool:
    return array.dtype == "uint8" and len(array.shape) == 1
