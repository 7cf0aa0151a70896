"""Tensors in and out, and buffers that the caller brings, for every operator."""

import numpy as np
import pytest

import fewbits
from cases import DTYPES, ROW_IDS, ROWS, Case, array, bits
from fewbits import DecodeError, SpecError
from fewbits.reference.formats import BFLOAT16, FLOAT32, FLOAT64, Format

rows = pytest.mark.parametrize(("case", "format"), ROWS, ids=ROW_IDS)


def plain(format: Format, n: int = 60) -> np.ndarray:
    return array(np.random.default_rng(n).standard_normal(n), format)


def tensor_of(x: np.ndarray, format: Format):
    """The same bits as a tensor that owns its memory."""
    torch = pytest.importorskip("torch")
    unsigned = bits(x).view(f"i{x.dtype.itemsize}").copy()
    return torch.from_numpy(unsigned).view(getattr(torch, format.name)).reshape(x.shape)


@rows
def test_tensors_give_the_frames_of_arrays(case: Case, format: Format) -> None:
    x = plain(format).reshape(5, 12)
    tensor = tensor_of(x, format)
    wanted = fewbits.compress(x, case.operator, seed=1)
    assert fewbits.compress(tensor, case.operator, seed=1) == wanted
    assert fewbits.compress(tensor.requires_grad_(), case.operator, seed=1) == wanted
    apart = tensor.detach().repeat_interleave(2, dim=1)[:, ::2]
    assert not apart.is_contiguous()
    assert fewbits.compress(apart, case.operator, seed=1) == wanted
    turned = fewbits.compress(tensor.detach().t(), case.operator, seed=1)
    assert turned == fewbits.compress(x.T, case.operator, seed=1)
    zero = fewbits.compress(tensor.detach()[0, 0], case.operator, seed=1)
    assert fewbits.decompress(zero).shape == ()


@rows
def test_tensors_come_out_with_the_bits_of_arrays(case: Case, format: Format) -> None:
    torch = pytest.importorskip("torch")
    for shape in ((60,), (3, 4, 5), (), (0,), (2, 0)):
        x = plain(format, int(np.prod(shape))).reshape(shape)
        frame = fewbits.compress(x, case.operator, seed=1)
        y = fewbits.decompress(frame, to="torch")
        assert isinstance(y, torch.Tensor)
        assert y.dtype == getattr(torch, format.name)
        assert tuple(y.shape) == shape
        signed = getattr(torch, f"int{8 * format.itemsize}")
        again = y.reshape(-1).view(signed).numpy().tobytes()
        assert again == bits(fewbits.decompress(frame)).tobytes()


@rows
def test_decompress_fills_the_callers_array(case: Case, format: Format) -> None:
    x = plain(format).reshape(3, 20)
    frame = fewbits.compress(x, case.operator, seed=1)
    wanted = fewbits.decompress(frame)
    out = np.full((3, 20), 7, DTYPES[format])
    assert fewbits.decompress(frame, out=out) is out
    assert out.tobytes() == wanted.tobytes()
    moved = np.zeros(x.nbytes + 1, np.uint8)[1:].view(DTYPES[format]).reshape(3, 20)
    fewbits.decompress(frame, out=moved)
    assert moved.tobytes() == wanted.tobytes()


@rows
def test_decompress_fills_the_callers_tensor(case: Case, format: Format) -> None:
    torch = pytest.importorskip("torch")
    x = plain(format).reshape(3, 20)
    frame = fewbits.compress(x, case.operator, seed=1)
    out = torch.full((3, 20), 7.0, dtype=getattr(torch, format.name))
    assert fewbits.decompress(frame, out=out) is out
    assert torch.equal(out, fewbits.decompress(frame, to="torch"))


@rows
def test_decompress_refuses_an_out_that_does_not_fit(case: Case, format: Format) -> None:
    frame = fewbits.compress(plain(format).reshape(3, 20), case.operator, seed=1)
    dtype = DTYPES[format]
    read_only = np.zeros((3, 20), dtype)
    read_only.flags.writeable = False
    other = FLOAT64 if format == FLOAT32 else FLOAT32
    for out in np.zeros((3, 21), dtype), np.zeros(60, dtype), np.zeros((3, 20), DTYPES[other]):
        with pytest.raises(DecodeError, match="out is "):
            fewbits.decompress(frame, out=out)
    refused = [
        np.zeros((3, 20), np.int32),
        np.zeros((20, 3), dtype).T,
        np.zeros((3, 40), dtype)[:, ::2],
        read_only,
        bytearray(1000),
        [0.0] * 60,
    ]
    if format != BFLOAT16:
        refused.append(np.zeros((3, 20), dtype.newbyteorder(">")))
    for out in refused:
        with pytest.raises(SpecError, match="out "):
            fewbits.decompress(frame, out=out)


@rows
def test_compress_fills_the_callers_buffer(case: Case, format: Format) -> None:
    x = plain(format)
    wanted = fewbits.compress(x, case.operator, seed=1)
    room = fewbits.largest_frame(x, case.operator)
    varies = any(section.varies for section in case.operator.layout(x.size, format))
    assert len(wanted) <= room if varies else len(wanted) == room
    for extra in (0, 5):
        buffer = bytearray(b"\xa5" * (room + extra))
        filled = fewbits.compress(x, case.operator, seed=1, out=buffer)
        assert isinstance(filled, memoryview)
        assert filled.nbytes == len(wanted)
        assert bytes(filled) == wanted
        assert bytes(buffer[room:]) == b"\xa5" * extra
    odd = np.empty(room + 1, np.uint8)[1:]
    filled = fewbits.compress(x, case.operator, seed=1, out=odd)
    assert bytes(filled) == wanted
    assert fewbits.decompress(filled).tobytes() == fewbits.decompress(wanted).tobytes()


@rows
def test_compress_refuses_an_out_that_does_not_fit(case: Case, format: Format) -> None:
    x = plain(format)
    size = fewbits.largest_frame(x, case.operator)
    with pytest.raises(SpecError, match=f"{size - 1} bytes, {case.operator} may need {size}"):
        fewbits.compress(x, case.operator, out=bytearray(size - 1))
    with pytest.raises(SpecError, match="writable"):
        fewbits.compress(x, case.operator, out=bytes(size))
    with pytest.raises(SpecError, match="writable, contiguous"):
        fewbits.compress(x, case.operator, out=np.empty(2 * size, np.uint8)[::2])
    with pytest.raises(SpecError, match="writable, contiguous"):
        fewbits.compress(x, case.operator, out=[0] * size)
