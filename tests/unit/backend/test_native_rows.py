"""Tables of units: rows of all kinds in one call."""

import numpy as np
import pytest

import native_tables as native
import native_tables as units
from fewbits.backend import library as _native
from fewbits.errors import DecodeError
from fewbits.reference.casts import to_float64
from fewbits.reference.formats import FLOAT32, FLOAT64, FORMATS, Format
from fewbits.rng import Rng

COUNT = 2500  # more than the block in which casts are added


def some(format: Format, seed: int) -> np.ndarray:
    """Values of all magnitudes, as bits."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 1 << 8 * format.itemsize, COUNT, dtype=np.uint64).astype(format.bits)


def wide(format: Format) -> Format:
    return FLOAT64 if format == FLOAT64 else FLOAT32


def row_of(table: units.Table, at: int, kernel: tuple[int, int], format: Format) -> np.void:
    units.set_kernel(table[at], kernel, format, COUNT)
    return table[at]


@pytest.mark.parametrize("section", FORMATS, ids=lambda f: f"section-{f.name}")
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_accumulating_a_cast_is_decoding_and_then_adding(format: Format, section: Format) -> None:
    sent = some(section, 1)
    finite = np.isfinite(to_float64(sent, section))
    sent[~finite] = 0
    totals = np.linspace(-1, 1, COUNT).astype(wide(format).name)
    decoded = np.zeros(COUNT, format.bits)
    tally = native.cast(sent, section, format, decoded)
    expected = totals + to_float64(decoded, format).astype(totals.dtype)

    table = units.new_table(1)
    row = row_of(table, 0, (units.CAST, section.code), format)
    units.set_sections(row, _native.address(sent), [sent.nbytes])
    row["values"] = _native.address(totals)
    assert units.run("accumulate", table) == tally
    assert totals.tobytes() == expected.tobytes()


def relay(format: Format, encodes: int = 1) -> tuple[units.Table, list[np.ndarray]]:
    """Clear, add two casts, divide by two, encode with `natural`; and what the rows point to."""
    terms = [np.full(COUNT, value, wide(format).name).view(wide(format).bits) for value in (1, 5)]
    totals = np.full(COUNT, 99.0, wide(format).name)
    planes = np.zeros(COUNT * wide(format).exponent // 8 + COUNT // 8 + 2, np.uint8)
    table = units.new_table(5)
    row_of(table, 0, (units.CLEAR, 0), format)
    for at, term in enumerate(terms):
        row = row_of(table, 1 + at, (units.CAST, wide(format).code), format)
        units.set_sections(row, _native.address(term), [term.nbytes])
    row_of(table, 3, (units.DIVIDE, 0), format)["first"] = 2
    last = row_of(table, 4, (units.NATURAL, 0), wide(format))
    sizes = [-(-COUNT * wide(format).exponent // 8), -(-COUNT // 8)]
    units.set_sections(last, _native.address(planes), sizes)
    last["key"], last["encodes"] = np.void(Rng.from_seed(1).key), encodes
    table["values"] = _native.address(totals)
    return table, [*terms, totals, planes]


@pytest.mark.parametrize("format", [FLOAT32, FLOAT64], ids=lambda f: f.name)
def test_a_sum_is_encoded_where_it_has_grown(format: Format) -> None:
    table, arrays = relay(format)
    assert units.run("accumulate", table) == units.Tally()
    assert (arrays[2] == 3).all()
    values = np.zeros(COUNT, wide(format).name)
    table["values"] = _native.address(values)
    table["encodes"] = 0
    units.run("decode", table[4:])
    assert set(values) == {2.0, 4.0}


@pytest.mark.parametrize("direction", ["encode", "decode"])
def test_only_a_sum_can_be_encoded(direction: units.RowDirection) -> None:
    table, _ = relay(FLOAT32)
    with pytest.raises(RuntimeError):
        units.run(direction, table[4:])


@pytest.mark.parametrize("encodes", [2, 255])
def test_other_marks_are_refused(encodes: int) -> None:
    table, _ = relay(FLOAT32, encodes)
    with pytest.raises(RuntimeError):
        units.run("accumulate", table)


def test_an_error_says_which_row() -> None:
    table, arrays = relay(FLOAT32)
    arrays[-1][-2:] = 255  # padding of the signs
    table["encodes"] = 0
    with pytest.raises(DecodeError) as caught:
        units.run("accumulate", table)
    assert caught.value.row == 4
