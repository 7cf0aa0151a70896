"""What every operator must do between vector and frame."""

import random
import warnings

import numpy as np
import pytest

import fewbits
from cases import (
    CASES,
    DTYPES,
    ROW_IDS,
    ROWS,
    Case,
    array,
    bits,
    corners,
    exact,
    mixed_bits,
    naming,
)
from fewbits import Operator, Rng, SaturationWarning, registry
from fewbits.backend import library as _native
from fewbits.core.vector import Vector
from fewbits.reference.formats import BFLOAT16, FORMATS, Format
from fewbits.wire import frame as wire
from native_tables import each_table

rows = pytest.mark.parametrize(("case", "format"), ROWS, ids=ROW_IDS)
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def compressed(x: object, operator: Operator, **options: object) -> bytes:
    """A frame, with the warning about saturated values muted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SaturationWarning)
        return fewbits.compress(x, operator, **options)


def parsed(frame: bytes) -> wire.Parsed:
    return wire.parse(np.frombuffer(frame, np.uint8), 2**20)


def plain(format: Format, n: int = 333) -> np.ndarray:
    return array(np.random.default_rng(n).standard_normal(n), format)


@rows
def test_corner_vectors_survive(case: Case, format: Format) -> None:
    for corner, x in corners(format).items():
        with naming(corner):
            check_survives(case, format, x)


def check_survives(case: Case, format: Format, x: np.ndarray) -> None:
    frame = compressed(x, case.operator, seed=3)
    y = fewbits.decompress(frame)
    assert y.shape == x.shape
    assert y.dtype == x.dtype
    before, after = exact(x), exact(y)
    assert np.isfinite(after).all()
    if case.keeps_signs:
        assert (after[before == 0] == 0).all()
        assert (np.sign(after) * np.sign(before) >= 0).all()
    if not before.any():
        assert not after.any()
    info = fewbits.inspect(frame)
    assert info.finite
    assert (info.shape, info.dtype) == (x.shape, format.name)
    promise = case.operator.guarantee(x.size, format)
    magnitude = np.abs(before[before != 0])
    inside = (magnitude >= promise.low).all() and (magnitude <= promise.high).all()
    if promise.sure and inside and before.any():
        unit = np.abs(before).max()  # squares of the largest numbers are not numbers
        assert (((after - before) / unit) ** 2).sum() <= promise.error * (
            (before / unit) ** 2
        ).sum()
    if promise.error == 0:
        assert np.array_equal(after, before)


@rows
def test_frames_hold_what_the_reference_writes(case: Case, format: Format) -> None:
    for corner, x in corners(format).items():
        with naming(corner):
            check_sections(case, format, x, 4)


@rows
def test_every_table_writes_what_the_reference_writes(case: Case, format: Format) -> None:
    for n in (1, 7, 31, 32, 33, 100, 1025, 4099):
        with naming(n):
            values = mixed_bits(format, n, seed=n).view(DTYPES[format])
            check_sections(case, format, values, n, nonfinite="carry")


def check_sections(case: Case, format: Format, x: np.ndarray, seed: int, **options: str) -> None:
    wanted = case.sections(bits(x), format, Rng.from_seed(seed).fork(0))
    for simd in each_table():
        frame = parsed(compressed(x, case.operator, seed=seed, **options))
        assert tuple(section.tobytes() for section in frame.sections) == wanted, simd


@rows
def test_decompress_is_the_operators_decode(case: Case, format: Format) -> None:
    for n in (0, 1, 100):
        frame = fewbits.compress(plain(format, n), case.operator, seed=1)
        out = Vector(np.full(n, 77, format.bits), format)
        case.operator.decode(parsed(frame).sections, out)
        assert bits(fewbits.decompress(frame)).tobytes() == out.bits.tobytes()


@rows
def test_equal_seeds_give_equal_bytes(case: Case, format: Format) -> None:
    x = plain(format)
    first, second, other = (fewbits.compress(x, case.operator, seed=s) for s in (5, 5, 6))
    assert first == second
    assert (first != other) == case.stochastic


@rows
def test_without_a_seed_the_rounding_is_fresh(case: Case, format: Format) -> None:
    x = plain(format)
    first, second = (fewbits.compress(x, case.operator) for _ in range(2))
    assert (first != second) == case.stochastic


@cases
def test_threads_and_tables_never_change_bytes(case: Case) -> None:
    x = np.resize(np.random.default_rng(1).standard_normal(5003), 600_001).astype(np.float32)
    before = _native.simd()
    frames, results = [], []
    try:
        for table in ("portable", before):
            _native.use_simd(table)
            for threads in (1, 2):
                frames.append(fewbits.compress(x, case.operator, seed=9, threads=threads))
                results.append(fewbits.decompress(frames[-1], threads=threads).tobytes())
    finally:
        _native.use_simd(before)
    assert len(set(frames)) == 1
    assert len(set(results)) == 1


@rows
def test_strided_and_foreign_inputs_are_their_plain_copies(case: Case, format: Format) -> None:
    x = plain(format, 60).reshape(3, 4, 5)
    wanted = fewbits.compress(x, case.operator, seed=2)
    offset = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    offset[:] = x
    read_only = x.copy()
    read_only.flags.writeable = False
    sparse = np.zeros((6, 4, 10), x.dtype)
    sparse[::2, :, ::2] = x
    variants = [np.asfortranarray(x), offset, read_only, sparse[::2, :, ::2]]
    if format != BFLOAT16:
        variants += [x.astype(x.dtype.newbyteorder(">")), x.astype(x.dtype.newbyteorder("<"))]
    for variant in variants:
        assert fewbits.compress(variant, case.operator, seed=2) == wanted


@rows
def test_scalars_are_zero_dimensional_arrays(case: Case, format: Format) -> None:
    x = array(1.25, format)
    frame = fewbits.compress(x, case.operator, seed=2)
    assert fewbits.decompress(frame).shape == ()
    if format != BFLOAT16:
        assert fewbits.compress(x[()], case.operator, seed=2) == frame


@rows
def test_the_input_is_never_modified(case: Case, format: Format) -> None:
    x = mixed_bits(format, 1000, seed=8).view(DTYPES[format])
    before = x.tobytes()
    frame = compressed(x, case.operator, seed=1, nonfinite="carry")
    assert x.tobytes() == before
    kept = bytes(bytearray(frame))
    fewbits.decompress(frame)
    assert frame == kept


@cases
def test_global_random_states_are_untouched(case: Case) -> None:
    torch = pytest.importorskip("torch")
    before = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state()  # noqa: NPY002
    fewbits.decompress(fewbits.compress(plain(FORMATS[0]), case.operator))
    fewbits.compress(plain(FORMATS[0]), case.operator, seed=1)
    after = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state()  # noqa: NPY002
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


@cases
def test_spec_strings_and_wire_parameters_come_back(case: Case) -> None:
    own = case.operator
    assert fewbits.operator(own.spec) == own
    assert fewbits.operator(own) is own
    assert fewbits.operator(own.spec).spec == own.spec
    assert registry.from_wire(own.stages) == own
    assert fewbits.inspect(fewbits.compress(plain(FORMATS[0]), own)).operator == own.spec


@rows
def test_the_bound_on_bits_holds_and_overhead_is_small(case: Case, format: Format) -> None:
    for n in (0, 1, 13, 255, 256, 5000, 70_000):
        with naming(n):
            check_size(case, format, n)


def check_size(case: Case, format: Format, n: int) -> None:
    frame = fewbits.compress(np.ones(n, DTYPES[format]), case.operator, seed=1)
    info = fewbits.inspect(frame)
    bound = case.operator.guarantee(n, format).bits
    assert 8 * len(frame) <= bound
    assert info.bytes == len(frame)
    assert info.overhead == len(frame) - sum(info.sections.values())
    assert info.overhead <= 64
    # The bound is not vacuous: no operator here is larger than the vector and a header.
    assert bound <= 8 * (n * format.itemsize + 64)


@rows
def test_accumulate_is_decode_then_add(case: Case, format: Format) -> None:
    for n in (0, 1, 100, 1025):
        # No NaN: which operand's NaN an addition returns is not for us to say.
        frame = compressed(plain(format, n), case.operator, seed=3)
        totals = np.random.default_rng(n).standard_normal(n)
        totals = totals.astype(np.float64 if format.itemsize == 8 else np.float32)
        wanted = totals + exact(fewbits.decompress(frame)).astype(totals.dtype)
        tally = case.operator.accumulate(parsed(frame).sections, format, totals)
        assert totals.tobytes() == wanted.tobytes()
        assert tally.nonfinite == 0


@rows
def test_accumulate_carries_what_is_not_finite(case: Case, format: Format) -> None:
    x = array([1.0, np.nan, 2.0], format)
    frame = fewbits.compress(x, case.operator, nonfinite="carry", seed=1)
    totals = np.zeros(3, np.float64 if format.itemsize == 8 else np.float32)
    tally = case.operator.accumulate(parsed(frame).sections, format, totals)
    assert tally.nonfinite == np.count_nonzero(~np.isfinite(totals)) >= 1
    wanted = exact(fewbits.decompress(frame)).astype(totals.dtype)
    assert np.array_equal(totals, wanted, equal_nan=True)
    if case.carries == "places":
        finite = fewbits.compress(array([1.0, 0.0, 2.0], format), case.operator, seed=1)
        others = exact(fewbits.decompress(finite))[[0, 2]]
        assert np.array_equal(totals, [others[0], np.nan, others[1]], equal_nan=True)
    if case.carries == "block":
        assert np.isnan(totals).all()


@rows
def test_error_feedback_sends_everything_in_the_end(case: Case, format: Format) -> None:
    r"""With memory $m \leftarrow m + x - C(m + x)$ the sum of what was sent is $T x - m$.

    $\|m'\| \le \sqrt{q}\,(\|m\| + \|x\|)$ with the guarantee's constant $q$ gives
    $\|m\| \le \|x\| \sqrt{q} / (1 - \sqrt{q})$; for the unbiased in the mean square only, hence the
    factor 2. The zero map's memory is $T x$.
    """
    x, steps = plain(format, 64), 40
    memory, sent = np.zeros(64), np.zeros(64)
    for step in range(steps):
        message = array(memory + exact(x), format)
        y = exact(fewbits.decompress(fewbits.compress(message, case.operator, seed=step)))
        memory, sent = exact(message) - y, sent + y
    # Each message is rounded once to the format: relative 2^-(mantissa + 1) of at most 2.5 |x|.
    slack = steps * 2.5 * np.linalg.norm(exact(x)) * 2.0 ** -(format.mantissa + 1) + 1e-9
    assert np.linalg.norm(sent + memory - steps * exact(x)) <= slack
    root = np.sqrt(case.operator.guarantee(64, format).error)
    assert np.linalg.norm(memory) <= 2 * root / (1 - root) * np.linalg.norm(exact(x)) + slack


@rows
def test_what_is_not_finite_raises_and_is_counted(case: Case, format: Format) -> None:
    x = array([1.0, np.nan, np.inf, -np.inf, 0.0], format)
    with pytest.raises(fewbits.EncodeError, match=r"^3 of 5 values are NaN or infinite"):
        fewbits.compress(x, case.operator, seed=1)
    for bad in (np.nan, np.inf):
        alone = array(np.where(np.arange(64) == 33, bad, 0.0), format)  # all else is zero
        with pytest.raises(fewbits.EncodeError, match=r"^1 of 64 values are NaN or infinite"):
            fewbits.compress(alone, case.operator, seed=1)
    with pytest.raises(fewbits.SpecError, match="nonfinite must be"):
        fewbits.compress(x, case.operator, seed=1, nonfinite="drop")


@rows
def test_what_is_not_finite_is_carried(case: Case, format: Format) -> None:
    for n in (5, 40, 100):
        x = plain(format, n).copy()
        x[[1, 2, n - 1]] = 0  # a scale is that of the finite values
        finite = fewbits.decompress(fewbits.compress(x, case.operator, seed=1))
        x[[1, 2, n - 1]] = array([np.nan, np.inf, -np.inf], format)
        frame = fewbits.compress(x, case.operator, seed=1, nonfinite="carry")
        y = exact(fewbits.decompress(frame))
        assert not np.isfinite(y).all()
        assert not fewbits.inspect(frame).finite
        if case.carries == "block":
            size = getattr(case.operator, "block", 0) or n
            odd = np.logical_or.reduceat(~np.isfinite(exact(x)), np.arange(0, n, size))
            assert np.array_equal(np.isnan(y), odd.repeat(size)[:n])
        if case.carries != "places":
            continue
        assert np.isnan(y[1])
        assert not np.isfinite(y[[2, n - 1]]).any()
        rest = np.isfinite(exact(x))
        assert np.array_equal(y[rest], exact(finite)[rest])


@rows
def test_values_beyond_the_range_saturate_with_a_warning(case: Case, format: Format) -> None:
    largest = format.infinity - 1
    x = np.array([largest, largest | format.sign, format.bias << format.mantissa], format.bits)
    x = x.view(DTYPES[format])
    high = case.operator.guarantee(3, format).high
    if exact(x)[0] <= high:
        y = fewbits.decompress(fewbits.compress(x, case.operator, seed=1))  # warnings are errors
        assert np.isfinite(exact(y)).all()
        return
    if not case.plain:  # what is left of such values depends on the others
        with pytest.warns(SaturationWarning, match=r"^[12] of 3 values exceed the range"):
            frame = fewbits.compress(x, case.operator, seed=1)
        assert np.isfinite(exact(fewbits.decompress(frame))).all()
        return
    with pytest.warns(SaturationWarning, match=r"^2 of 3 values exceed the range"):
        frame = fewbits.compress(x, case.operator, seed=1)
    nearest = float(exact(array(high, format)))  # float16's largest is no bfloat16 number
    assert exact(fewbits.decompress(frame)).tolist() == [nearest, -nearest, 1.0]
