"""Flower's records of arrays, and their values by record and name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord

from fewbits.errors import DecodeError, EncodeError, SpecError
from fewbits.flower.arrays import Values, clipped, packed, values

Record = ArrayRecord | ConfigRecord | MetricRecord
ArraysByName = dict[str, Values]
Arrays = dict[str, ArraysByName]
"""Values by record and name."""


def unpacked(records: Mapping[str, ArrayRecord]) -> Arrays:
    """The values of all records; `DecodeError` names an array that does not decode."""
    found: Arrays = {}
    for record, arrays in records.items():
        own = found[record] = {}
        for name, array in arrays.items():
            with blaming(record, name):
                own[name] = values(array)
    return found


def as_records(arrays: Mapping[str, Mapping[str, Values]]) -> dict[str, ArrayRecord]:
    return {
        record: ArrayRecord({name: packed(x) for name, x in own.items()})
        for record, own in arrays.items()
    }


def referred(name: str, record: ArrayRecord, model: Arrays) -> str | None:
    """The received record with the same names and shapes; one of the same name comes first."""
    shapes = {key: tuple(array.shape) for key, array in record.items()}
    for other in sorted(model, key=lambda other: other != name):
        if {key: x.shape for key, x in model[other].items()} == shapes:
            return other
    return None


@contextmanager
def blaming(record: str, name: str) -> Iterator[None]:
    try:
        yield
    except (DecodeError, EncodeError, SpecError) as error:
        raise type(error)(f"{clipped(f'{record}/{name}')}: {error}") from error
