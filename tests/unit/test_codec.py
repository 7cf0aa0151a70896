"""The façade: which inputs it takes, what it says to the others, what it does not import."""

import subprocess
import sys

import numpy as np
import pytest

import fewbits
from cases import array, sealed
from fewbits import DecodeError, EncodeError, MissingExtraError, SpecError
from fewbits.reference.formats import BFLOAT16, FLOAT32
from fewbits.wire.frame import Header, StageRecord

X = np.float32([1.5, -2.0, 0.0])


def run(code: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1.0, 2.0], "x must be a NumPy array or a torch tensor, got list: wrap numbers"),
        (1.5, "x must be a NumPy array or a torch tensor, got float: wrap numbers"),
        (None, "x must be a NumPy array or a torch tensor, got NoneType: wrap numbers"),
        (np.arange(3), "cannot compress dtype int64: convert to one of float32"),
        (np.array([True]), "cannot compress dtype bool: convert to one of float32"),
        (np.array([1.0, None], object), "cannot compress dtype object: convert to one of float32"),
        (np.zeros(2, complex), "cannot compress dtype complex128: convert to one of float32"),
        (np.zeros(2, np.longdouble), "cannot compress dtype "),
        (np.ma.masked_array([1.0, 2.0], [0, 1]), "x must be a NumPy array .* fill the mask first"),
        *(  # NumPy 1 has no more than 32 itself
            [
                (
                    np.zeros((1,) * 33, np.float32),
                    "33 dimensions, at most 32 are supported: reshape first",
                )
            ]
            if np.lib.NumpyVersion(np.__version__) >= "2.0.0"
            else []
        ),
    ],
)
def test_other_inputs_are_refused_with_advice(x: object, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        fewbits.compress(x, "natural")


def test_tensors_elsewhere_are_refused_with_advice() -> None:
    torch = pytest.importorskip("torch")
    for x, message in (
        (torch.zeros(3, device="meta"), r"the tensor is on meta: call .cpu\(\) first"),
        (torch.zeros(3).to_sparse(), r"layout is torch.sparse_coo: call .to_dense\(\) first"),
        (torch.zeros(3, dtype=torch.int32), "cannot compress dtype int32"),
        (torch.zeros(3, dtype=torch.complex64), "cannot compress dtype complex64"),
    ):
        with pytest.raises(EncodeError, match=message):
            fewbits.compress(x, "natural")


def test_lazily_negated_tensors_are_what_they_look_like() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert x.is_neg()
    assert fewbits.decompress(fewbits.compress(x, "identity")).tolist() == [-2, 4]


def test_out_that_is_not_the_callers_memory_is_refused() -> None:
    torch = pytest.importorskip("torch")
    scalar = fewbits.compress(np.array(5.0, np.float32), "identity")
    with pytest.raises(SpecError, match="out must be a NumPy array"):
        fewbits.decompress(scalar, out=np.float32(0))
    zeros = torch.zeros(3, dtype=torch.complex64).conj().imag
    with pytest.raises(SpecError, match="out "):
        fewbits.decompress(fewbits.compress(X, "identity"), out=zeros)


def test_tensors_that_cannot_be_out_are_the_callers_fault() -> None:
    torch = pytest.importorskip("torch")
    frame = fewbits.compress(X, "identity")
    for out in (
        torch.zeros(3, dtype=torch.int32),
        torch.zeros(6)[::2],
        torch.zeros(3, device="meta"),
        torch.zeros(3).to_sparse(),
    ):
        with pytest.raises(SpecError, match="out "):
            fewbits.decompress(frame, out=out)
    for out in (torch.zeros(3, dtype=torch.float64), torch.zeros(4)):
        with pytest.raises(DecodeError, match="out is "):
            fewbits.decompress(frame, out=out)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, "u1")])
def test_any_contiguous_buffer_is_a_frame(kind) -> None:
    frame = kind(fewbits.compress(X, "identity"))
    assert fewbits.decompress(frame).tolist() == X.tolist()
    assert fewbits.inspect(frame).elements == 3


def test_what_is_no_buffer_is_refused() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for frame in ("fewb", 3, None, [1, 2], np.zeros(9, "M8[s]"), np.zeros(9, ml_dtypes.bfloat16)):
        with pytest.raises(SpecError, match="a frame is bytes"):
            fewbits.decompress(frame)
    with pytest.raises(SpecError, match="contiguous"):
        fewbits.decompress(memoryview(bytes(100))[::2])


def test_options_that_make_no_sense_are_refused() -> None:
    frame = fewbits.compress(X, "natural", seed=1)
    with pytest.raises(SpecError, match="threads must be from 1 to 65536, got 0"):
        fewbits.compress(X, "natural", threads=0)
    with pytest.raises(SpecError, match="threads must be from 1 to 65536, got -1"):
        fewbits.decompress(frame, threads=-1)
    with pytest.raises(SpecError, match="to must be 'numpy' or 'torch', got 'jax'"):
        fewbits.decompress(frame, to="jax")
    with pytest.raises(SpecError, match="nonfinite must be 'raise' or 'carry', got 'skip'"):
        fewbits.compress(X, "natural", nonfinite="skip")


def test_inspect_tells_what_the_frame_holds() -> None:
    frame = fewbits.compress(np.ones((3, 100), np.float32), "natural:rounding=nearest")
    info = fewbits.inspect(frame)
    assert info.operator == "natural:rounding=nearest"
    assert (info.dtype, info.shape, info.elements, info.finite) == ("float32", (3, 100), 300, True)
    assert info.sections == {"exponents": 300, "signs": 38}
    assert info.bytes == len(frame) == 338 + info.overhead
    assert info.bits_per_value == pytest.approx(8 * len(frame) / 300)
    assert info.ratio == pytest.approx(1200 / len(frame))
    text = str(info)
    assert "operator   natural:rounding=nearest" in text
    assert "values     300 float32 (3×100)" in text
    assert f"bytes      {len(frame)} = exponents 300, signs 38 + {info.overhead} overhead" in text
    empty = fewbits.inspect(fewbits.compress(np.zeros(0), "identity"))
    assert np.isnan(empty.bits_per_value)
    assert "scalar" in str(fewbits.inspect(fewbits.compress(np.float32(1), "identity")))


def test_inspect_reads_no_values_but_checks_the_frame() -> None:
    frame = bytearray(fewbits.compress(np.ones(9, np.float32), "natural"))
    frame[-5] |= 0x80  # padding of the sign plane: only decoding can see it
    resealed = sealed(bytes(frame[:-4]))
    assert fewbits.inspect(resealed).elements == 9
    with pytest.raises(fewbits.DecodeError, match="unused bits"):
        fewbits.decompress(resealed)


def test_large_frames_are_new_bytes_each_time() -> None:
    x = np.random.default_rng(1).standard_normal(1 << 20).astype(np.float32)
    first, second = (fewbits.compress(x, "identity") for _ in range(2))
    assert type(first) is bytes
    assert first is not second
    assert first == second
    assert hash(first) == hash(second)
    assert np.array_equal(fewbits.decompress(first), x)


def test_importing_brings_neither_torch_nor_threads() -> None:
    code = """
import sys, threading
import fewbits
heavy = {"torch", "ml_dtypes", "flwr", "matplotlib", "concurrent.futures.process"}
print(sorted(heavy & set(sys.modules)), threading.active_count())
import numpy as np
fewbits.decompress(fewbits.compress(np.zeros(1000, "float32"), "natural"))
print(sorted(heavy & set(sys.modules)), threading.active_count())
"""
    assert run(code).splitlines() == ["[] 1", "[] 1"]


def test_bfloat16_without_ml_dtypes_names_what_to_install() -> None:
    frame = fewbits.compress(array([1.5, 2.0], BFLOAT16), "identity")
    code = """
import sys
sys.modules["ml_dtypes"] = None
import fewbits
frame = bytes.fromhex(sys.argv[1])
try:
    fewbits.decompress(frame)
except fewbits.DecodeError as error:
    assert isinstance(error.__cause__, ImportError)
    assert "pip install ml_dtypes" in str(error)
else:
    raise SystemExit("decoded to what?")
assert fewbits.inspect(frame).dtype == "bfloat16"
import torch
print(fewbits.decompress(frame, to="torch").tolist())
"""
    pytest.importorskip("torch")
    assert run(code, frame.hex()) == "[1.5, 2.0]"


def test_tensors_without_torch_name_what_to_install() -> None:
    frame = fewbits.compress(X, "identity")
    code = """
import sys, fewbits
try:
    fewbits.decompress(bytes.fromhex(sys.argv[1]), to="torch")
except fewbits.MissingExtraError as error:
    print(error)
"""
    assert "import torch" in run(code, frame.hex())
    assert issubclass(MissingExtraError, ImportError)


def test_thirty_two_dimensions_are_the_most() -> None:
    x = np.ones((1,) * 32, np.float32)
    assert fewbits.decompress(fewbits.compress(x, "natural")).shape == x.shape
    header = Header(FLOAT32, (1,) * 33, (StageRecord(1),), (4,)).encode()
    with pytest.raises(fewbits.DecodeError, match="33 dimensions"):
        fewbits.decompress(sealed(header + bytes(4)))


@pytest.mark.parametrize("spec", ["identity", "natural", "natural:coder=rans"])
def test_an_output_that_overlaps_the_input_is_refused(spec: str) -> None:
    memory = np.ones(4000, np.float32)
    with pytest.raises(SpecError, match="out overlaps the input"):
        fewbits.compress(memory[:1000], spec, out=memory)
    assert (memory == 1).all()
    frame = fewbits.compress(memory[:1000], spec, seed=1)
    raw = memory.view(np.uint8)
    raw[: len(frame)] = np.frombuffer(frame, np.uint8)
    with pytest.raises(SpecError, match="out overlaps the input"):
        fewbits.decompress(raw[: len(frame)], out=memory[:1000])
    beside = memory[2000:3000]
    assert fewbits.decompress(raw[: len(frame)], out=beside) is beside
    assert (beside == 1).all()


@pytest.mark.parametrize("seed", [1.5, "a", b"x", [1], np.float32(7), object()])
def test_seeds_are_whole_numbers(seed: object) -> None:
    with pytest.raises(SpecError, match="a seed is a whole number"):
        fewbits.compress(np.ones(3, np.float32), "natural", seed=seed)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", "2"),
        ("threads", 1.5),
        ("threads", 0),
        ("max_elements", None),
        ("max_elements", -1),
    ],
)
def test_numbers_of_arguments_are_checked(name: str, value: object) -> None:
    frame = fewbits.compress(np.ones(3, np.float32), "natural", seed=1)
    with pytest.raises(SpecError, match=name):
        fewbits.decompress(frame, **{name: value})
