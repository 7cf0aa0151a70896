"""Frames of device tensors: the bytes of the host's, for every operator that a device runs."""

import numpy as np
import pytest
import torch

import fewbits
from device_rows import DEVICE, vector
from fewbits.core import device_vector
from fewbits.core import vector as host_vector
from fewbits.errors import DecodeError, EncodeError, SpecError
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32
from fewbits.rng import Rng

OPERATORS = "identity", "float16", "bfloat16", "natural", "natural:rounding=nearest"
FORMATS = FLOAT32, BFLOAT16, FLOAT16
LENGTHS = [*range(1, 26), 31, 63, 64, 65, 127, 255, 257, 1000, 1023, 1025, 4095, 4096, 4097]
LENGTHS += [65_535, 65_537]
CASES = [
    pytest.param(spec, format, id=f"{spec}-{format.name}")
    for spec in OPERATORS
    for format in FORMATS
]


@pytest.fixture
def on_device(monkeypatch):
    """Take CPU tensors for those of a device."""
    monkeypatch.setattr(
        "fewbits.codec.device_of", lambda x: DEVICE if host_vector.is_tensor(x) else None
    )
    monkeypatch.setattr(host_vector, "lent", lambda x, writable=False: None)


def tensor(format, count, kind="normal"):
    bits = vector(kind, count, format, Rng.from_seed(count))
    own = torch.from_numpy(bits.view(np.int16 if format.itemsize == 2 else np.int32))
    return own.view(getattr(torch, format.name))


def same_frame(spec, format, count, kind="normal"):
    x = tensor(format, count, kind)
    seed = Rng.from_seed(count)
    host = fewbits.compress(host_copy(x), spec, seed=seed, nonfinite="carry")
    there = fewbits.compress(x, spec, seed=seed, nonfinite="carry")
    assert there == host
    out = torch.zeros_like(x)
    fewbits.decompress(there, out=out)
    expected = fewbits.decompress(host)
    assert bytes(out.view(torch.uint8).numpy()) == expected.tobytes()


def host_copy(x):
    """The values as NumPy has them, which no device takes."""
    if x.dtype == torch.bfloat16:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def test_there_are_forty_lengths():
    assert len(set(LENGTHS)) == 40


@pytest.mark.usefixtures("on_device")
@pytest.mark.filterwarnings("ignore::fewbits.SaturationWarning")
@pytest.mark.parametrize(("spec", "format"), CASES)
def test_some_lengths(spec, format):
    """Every length with one of the cases; all with all is the next test."""
    first = [own.values for own in CASES].index((spec, format))
    for count in LENGTHS[first :: len(CASES)]:
        same_frame(spec, format, count)
    same_frame(spec, format, 77, "edges")


@pytest.mark.soak
@pytest.mark.usefixtures("on_device")
@pytest.mark.filterwarnings("ignore::fewbits.SaturationWarning")
@pytest.mark.parametrize("kind", ["normal", "bits", "subnormal", "huge", "brink"])
@pytest.mark.parametrize(("spec", "format"), CASES)
def test_every_length(spec, format, kind, record_property):
    for count in LENGTHS:
        same_frame(spec, format, count, kind)
    record_property("frames", f"{spec} {format.name} {len(LENGTHS)}")


@pytest.mark.usefixtures("on_device")
def test_shapes_strides_and_empty_tensors():
    x = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    for own in (x, x.t(), x[:, ::2], x[:0], x[1, 2]):
        there = fewbits.compress(own, "natural", seed=3)
        assert there == fewbits.compress(own.numpy(), "natural", seed=3)
        out = torch.ones(own.shape)
        fewbits.decompress(there, out=out)
        assert out.tolist() == fewbits.decompress(there).tolist()


@pytest.mark.usefixtures("on_device")
def test_several_at_once():
    xs = [tensor(FLOAT32, 9), tensor(FLOAT32, 100)]
    frames = fewbits.compress_many(xs, "natural", seed=1)
    assert frames == fewbits.compress_many([x.numpy() for x in xs], "natural", seed=1)


@pytest.mark.usefixtures("on_device")
def test_one_copy_to_the_host(monkeypatch):
    """All sections and what was met come over together."""
    copies = []
    cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda own: copies.append(own.numel()) or cpu(own))
    fewbits.compress(tensor(FLOAT32, 1000), "natural", seed=1)
    assert len(copies) == 1


@pytest.mark.usefixtures("on_device")
def test_what_is_wrong_is_said():
    x = torch.ones(5)
    with pytest.raises(SpecError, match=r"coder=packed, or call \.cpu\(\) first"):
        fewbits.compress(x, "natural:coder=rans")
    for spec in ("trellis", "trellis:bits=2", "spherical", "sparse-dithering"):
        with pytest.raises(SpecError, match=r"use standard-dithering, or call \.cpu\(\) first"):
            fewbits.compress(x, spec)
    with pytest.raises(SpecError, match=r"use standard-dithering:levels=1, or call \.cpu\(\)"):
        fewbits.compress(x, "sign")
    with pytest.raises(SpecError, match=r"scale before another operator: call \.cpu\(\) first"):
        fewbits.compress(x, "scale|natural")
    with pytest.raises(EncodeError, match="dtype int32"):
        fewbits.compress(x.int(), "natural")
    with pytest.raises(EncodeError, match="1 of 5 values are NaN"):
        fewbits.compress(torch.tensor([1, 2, float("nan"), 3, 4]), "natural")
    frame = fewbits.compress(x, "natural", seed=1)
    with pytest.raises(SpecError, match="contiguous"):
        fewbits.decompress(frame, out=torch.ones(10)[::2])
    with pytest.raises(DecodeError, match="holds float32"):
        fewbits.decompress(frame, out=torch.ones(6))
    coded = fewbits.compress(x.numpy(), "natural:coder=rans", seed=1)
    with pytest.raises(SpecError, match=r"call \.cpu\(\) first"):
        fewbits.decompress(coded, out=x)


def test_the_hosts_tensors_stay_there():
    assert device_vector.device_of(torch.ones(2)) is None
    assert device_vector.device_of(np.ones(2)) is None


LEVELLED = (
    "natural-dithering",
    "natural-dithering:p=1,levels=3,block=64,scale=natural",
    "standard-dithering",
    "standard-dithering:p=2,levels=20",
    "qsgd",
    "terngrad",
)
SELECTED = "top-k|natural", "top-k:fraction=0.7|natural", "top-k:fraction=0.01|natural-dithering"


@pytest.mark.soak
@pytest.mark.usefixtures("on_device")
@pytest.mark.filterwarnings("ignore::fewbits.SaturationWarning")
@pytest.mark.parametrize("format", FORMATS, ids=lambda own: own.name)
@pytest.mark.parametrize("spec", LEVELLED + SELECTED)
def test_all_lengths_of_dithering_and_selections(spec, format, monkeypatch, record_property):
    monkeypatch.setattr("fewbits.backend.device.launches._INTERPRETED_BLOCK", 4096)
    for number, count in enumerate(LENGTHS):
        same_frame(spec, format, count, ("normal", "edges", "bits", "huge")[number % 4])
    record_property("frames", f"{spec} {format.name} {len(LENGTHS)}")
