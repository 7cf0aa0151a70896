"""Safetensors files, read and written: against the safetensors package, and hostile ones."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from fewbits.cli import tensor_files
from fewbits.cli.tensor_files import DTYPE_BITS, Tensor, TensorFile
from fewbits.errors import DecodeError
from fewbits.rng import Rng

DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16,
    "F16": np.float16, "BF16": ml_dtypes.bfloat16, "I32": np.int32, "U32": np.uint32,
    "F32": np.float32, "C64": np.complex64, "F64": np.float64, "I64": np.int64, "U64": np.uint64,
}  # fmt: skip
SHAPES = [(), (0,), (3, 0, 2), (1,), (2, 3), (5, 1, 2)]


def array(dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    """Different values everywhere, none of them 0."""
    count = int(np.prod(shape))
    numbers = 1 + Rng.from_seed(1).words(0, count) % 100
    return numbers.astype(dtype).reshape(shape)


def arrays() -> dict[str, np.ndarray]:
    return {
        f"{name}.{place} é": array(dtype, shape)
        for name, dtype in DTYPES.items()
        for place, shape in enumerate(SHAPES)
    }


def whole(file: TensorFile) -> bytes:
    return b"".join(tensor_files.write(file))


def as_file(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> TensorFile:
    names = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
    tensors = {
        name: Tensor(names[value.dtype], value.shape, memoryview(value.tobytes()))
        for name, value in arrays.items()
    }
    return TensorFile(tensors, metadata)


def raw(header: object, body: bytes = b"") -> memoryview:
    """A file with any header at all."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return memoryview(struct.pack("<Q", len(text)) + text + body)


def entry(start: int, stop: int, dtype: object = "U8", shape: object = None) -> dict[str, object]:
    shape = [stop - start] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def test_reads_what_the_package_writes() -> None:
    given, metadata = arrays(), {"format": "np", "ключ": "значение"}
    file = tensor_files.read(memoryview(safetensors.numpy.save(given, metadata)))
    assert file == as_file(given, metadata)


def test_the_package_reads_what_is_written() -> None:
    given = arrays()
    found = dict(safetensors.deserialize(whole(as_file(given, {"a": "b"}))))
    assert found.keys() == given.keys()
    for name, value in given.items():
        assert DTYPES[found[name]["dtype"]] == value.dtype
        assert tuple(found[name]["shape"]) == value.shape
        assert bytes(found[name]["data"]) == value.tobytes()


def test_writes_the_bytes_that_the_package_writes() -> None:
    given = arrays()
    assert whole(as_file(given, {"a": "b"})) == safetensors.numpy.save(given, {"a": "b"})


def test_the_package_reads_the_metadata(tmp_path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(whole(as_file({"x": array(np.float32, (2,))}, {"a": '"\n', "ü": ""})))
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == {"a": '"\n', "ü": ""}


@pytest.mark.parametrize("dtype", sorted(DTYPE_BITS))
def test_every_dtype_passes_through_unchanged(dtype: str) -> None:
    data = memoryview(bytes(range(DTYPE_BITS[dtype])))
    file = TensorFile({"x": Tensor(dtype, (2, 4), data)})
    written = whole(file)
    assert tensor_files.read(memoryview(written)) == file
    assert safetensors.deserialize(written)[0][1]["dtype"] == dtype


def test_tensors_stay_aligned_beside_odd_lengths() -> None:
    odd = Tensor("U8", (3,), memoryview(b"abc"))
    wide = Tensor("F64", (2,), memoryview(bytes(range(16))))
    written = whole(TensorFile({"a": odd, "b": wide}))
    assert written.index(bytes(range(16))) % 8 == 0


def test_tensors_are_views_of_the_file() -> None:
    data = bytearray(whole(as_file({"x": array(np.uint8, (4,))}, {})))
    tensor = tensor_files.read(memoryview(data)).tensors["x"]
    data[-1] ^= 0xFF
    assert tensor.data[-1] == data[-1]


def test_a_file_without_tensors_is_a_file() -> None:
    assert tensor_files.read(raw({})) == TensorFile({})
    assert whole(TensorFile({})) == bytes(raw(b"{}      "))


HOSTILE = {
    "nothing": memoryview(b""),
    "seven bytes": memoryview(b"\x02\0\0\0\0\0\0"),
    "a header of 2^63 bytes": memoryview(struct.pack("<Q", 2**63) + b"{}"),
    "a header of 100,000,001 bytes": memoryview(struct.pack("<Q", 100_000_001) + b"{}"),
    "a header longer than the file": memoryview(struct.pack("<Q", 3) + b"{}"),
    "an empty header": raw(b""),
    "a list": raw([]),
    "leading space": raw(b" {}"),
    "not JSON": raw(b"{a}"),
    "two objects": raw(b"{}{}"),
    "not UTF-8": raw(b'{"\xff":{}}'),
    "deep nesting": raw(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a number of 5000 digits": raw(b'{"a":' + b"9" * 5000 + b"}"),
    "the same tensor twice": raw(
        f'{{"a":{json.dumps(entry(0, 1))},"a":{json.dumps(entry(0, 1))}}}'.encode(), b"x"
    ),
    "the same field twice": raw(
        b'{"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}', b"x"
    ),
    "metadata that is a list": raw({"__metadata__": []}),
    "metadata with a number": raw({"__metadata__": {"a": 1}}),
    "metadata with half a surrogate pair": raw(b'{"__metadata__":{"a":"\\ud800"}}'),
    "a name that is half a surrogate pair": raw(
        b'{"\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"
    ),
    "a tensor that is a number": raw({"a": 1}),
    "a missing field": raw({"a": {"dtype": "U8", "shape": [0]}}),
    "one field too many": raw({"a": {**entry(0, 1), "more": 1}}, b"x"),
    "an unknown dtype": raw({"a": entry(0, 1, "U9")}, b"x"),
    "a dtype that is a list": raw({"a": entry(0, 1, ["U8"])}, b"x"),
    "a negative extent": raw({"a": entry(0, 1, shape=[-1, -1])}, b"x"),
    "a fractional extent": raw({"a": entry(0, 1, shape=[1.0])}, b"x"),
    "an extent that is true": raw({"a": entry(0, 1, shape=[True])}, b"x"),
    "a shape that is a number": raw({"a": entry(0, 1, shape=1)}, b"x"),
    "a product that wraps to 0": raw({"a": entry(0, 0, shape=[2**32, 2**32])}),
    "a product that is large before it is 0": raw({"a": entry(0, 0, shape=[2**62, 2**62, 0])}),
    "an extent of 2^64": raw({"a": entry(0, 0, shape=[2**64, 0])}),
    "half a byte": raw({"a": entry(0, 1, "F4", [1])}, b"x"),
    "offsets in reverse": raw({"a": entry(1, 0, shape=[1])}, b"x"),
    "negative offsets": raw({"a": entry(-1, 0, shape=[1])}, b"x"),
    "three offsets": raw({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 1]}}, b"x"),
    "offsets that do not fit the shape": raw({"a": entry(0, 2, shape=[1])}, b"xy"),
    "a tensor beyond the end": raw({"a": entry(0, 2)}, b"x"),
    "bytes at the end": raw({"a": entry(0, 1)}, b"xy"),
    "bytes without tensors": raw({}, b"x"),
    "a hole": raw({"a": entry(0, 1), "b": entry(2, 3)}, b"xyz"),
    "a hole at the start": raw({"a": entry(1, 2)}, b"xy"),
    "an overlap": raw({"a": entry(0, 2), "b": entry(1, 3)}, b"xyz"),
    "the same bytes twice": raw({"a": entry(0, 2), "b": entry(0, 2)}, b"xy"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_a_decode_error(name: str) -> None:
    with pytest.raises(DecodeError):
        tensor_files.read(HOSTILE[name])


def test_no_prefix_of_a_file_is_a_file() -> None:
    data = memoryview(whole(as_file({"a": array(np.float32, (2,))}, {"k": "v"})))
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            tensor_files.read(data[:length])
