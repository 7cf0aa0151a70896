"""The decoding boundary: bytes are the sender's fault, arguments the caller's."""

import numpy as np
import pytest

import fewbits
from cases import sealed
from fewbits import DecodeError, LimitError, SpecError, codec
from fewbits.core import quick
from fewbits.core.operator import Operator
from fewbits.reference.formats import FLOAT32
from fewbits.wire import frame as wire
from fewbits.wire.frame import Header, Parameter, ParameterType, StageRecord

X = np.float32([1.5, -2.0, 0.0])
FRAME = bytes(fewbits.compress(X, "natural", seed=1))


@pytest.fixture(autouse=True)
def _unknown_kinds() -> None:
    """Frames go the general way, in which faults are planted."""
    quick._known.clear()


def raising(error: BaseException):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


FAULTS = [ZeroDivisionError("x / 0"), KeyError(3), RuntimeError("two\nlines"), SpecError("no"),
          np.linalg.LinAlgError("singular"), RecursionError("deep"), StopIteration()]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("where", ["layout", "decode_checked", "read", "from_wire", "spec"])
def test_an_error_of_our_own_making_becomes_a_decode_error(
    fault: Exception, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = codec.open_frame(FRAME)
    owner = {"read": wire, "from_wire": codec.registry}.get(where, type(opened.operator))
    value = property(raising(fault)) if where == "spec" else raising(fault)
    monkeypatch.setattr(owner, where, value)
    read = fewbits.decompress if where == "decode_checked" else fewbits.inspect
    with pytest.raises(DecodeError) as refused:
        read(FRAME)
    assert refused.value.__cause__ is fault
    assert type(fault).__name__ in str(refused.value) or isinstance(fault, SpecError)
    assert "\n" not in str(refused.value)


def test_a_fault_in_the_short_way_leads_to_the_general_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fewbits.decompress(FRAME)
    for fault in (*FAULTS, MemoryError()):
        monkeypatch.setattr(quick.frames, "read", raising(fault))
        assert fewbits.decompress(FRAME).shape == X.shape


def test_every_way_into_an_opened_frame_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, out = codec.open_frame(FRAME), np.empty(3, np.float32)
    monkeypatch.setattr(Operator, "decode_checked", raising(ZeroDivisionError("x / 0")))
    for decode in (lambda: opened.into(out), lambda: fewbits.decompress(FRAME, out=out)):
        with pytest.raises(DecodeError, match="ZeroDivisionError: x / 0"):
            decode()


def test_interrupts_and_exits_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (KeyboardInterrupt(), SystemExit(3), GeneratorExit()):
        monkeypatch.setattr(Operator, "decode_checked", raising(error))
        with pytest.raises(type(error)):
            fewbits.decompress(FRAME)


def test_memory_that_is_missing_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Operator, "decode_checked", raising(MemoryError("no room")))
        with pytest.raises(LimitError, match="memory") as refused:
            fewbits.decompress(FRAME)
        assert isinstance(refused.value.__cause__, MemoryError)
    header = Header(FLOAT32, (2**60,), (StageRecord(11), StageRecord(9)), (16, 4, 0))
    monkeypatch.setattr(codec, "_checked_layout", lambda *_: ())
    monkeypatch.setattr(codec, "check_version", lambda *_: None)
    frame = sealed(header.encode() + bytes(20))
    with pytest.raises(LimitError, match="memory"):
        fewbits.decompress(frame, max_elements=2**62)
    pytest.importorskip("torch")
    with pytest.raises(LimitError, match="memory"):
        fewbits.decompress(frame, max_elements=2**62, to="torch")


def test_the_callers_mistakes_stay_the_callers() -> None:
    for wrong in (
        lambda: fewbits.decompress(FRAME, max_elements="many"),
        lambda: fewbits.decompress(FRAME, threads=0),
        lambda: fewbits.decompress(FRAME, to="jax"),
        lambda: fewbits.decompress(3),
        lambda: fewbits.inspect(FRAME, max_elements=-1),
        lambda: codec.open_frame(FRAME, threads="x"),
        lambda: codec.open_frame(FRAME).into(X.tolist()),
    ):
        with pytest.raises(SpecError):
            wrong()


READ_ONLY = np.zeros(3, np.float32)
READ_ONLY.flags.writeable = False
UNUSABLE = {
    "strided": np.zeros(6, np.float32)[::2],
    "fortran": np.zeros((3, 2), np.float32, order="F"),
    "read-only": READ_ONLY,
    "swapped": np.zeros(3, ">f4"),
    "integers": np.zeros(3, np.int32),
    "masked": np.ma.zeros(3, np.float32),
    "list": [0.0, 0.0, 0.0],
    "scalar": np.float32(0),
    "bytes": bytearray(12),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_out_that_no_frame_fits_is_the_callers_fault(name: str) -> None:
    with pytest.raises(SpecError, match="out "):
        fewbits.decompress(FRAME, out=UNUSABLE[name])


OTHERS = [np.zeros(4, np.float32), np.zeros((3, 1), np.float32), np.zeros((), np.float32),
          np.zeros(3, np.float64), np.zeros(3, np.float16)]  # fmt: skip


@pytest.mark.parametrize("out", OTHERS, ids=lambda out: f"{out.dtype}-{out.shape}")
def test_a_frame_that_differs_from_out_is_the_senders_fault(out: np.ndarray) -> None:
    before = out.copy()
    with pytest.raises(DecodeError, match=r"the frame holds float32 \(3,\), out is "):
        fewbits.decompress(FRAME, out=out)
    assert np.array_equal(out, before)


def test_the_agreed_operator_is_compared_before_checksum_and_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = (Parameter(0, ParameterType.FLOAT, 1e-300),)  # no layout has it
    header = Header(FLOAT32, (3,), (StageRecord(7, own),), (4, 4)).encode()
    frame = header + bytes(8) + b"\0\0\0\0"  # nor is its checksum right
    with pytest.raises(DecodeError, match=r"operator sparse-dithering:nu=1e-300, expected natural"):
        codec.open_frame(frame, expected=fewbits.operator("natural"))
    monkeypatch.setattr(Operator, "layout", raising(AssertionError("a layout was made")))
    monkeypatch.setattr(wire.Parsed, "verify", raising(AssertionError("a checksum was computed")))
    with pytest.raises(DecodeError, match="expected natural"):
        codec.open_frame(frame, expected=fewbits.operator("natural"))
