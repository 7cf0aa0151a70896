"""The command line as a user meets it: files, pipes, one line of complaint and an exit code."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

import fewbits
import warm_command
from fewbits import codec
from fewbits.cli import COMMANDS, main
from fewbits.reference.formats import Format
from fewbits.rng import Rng
from fewbits.wire.frame import Header, StageRecord, seal

COMMAND = [sys.executable, "-m", "fewbits.cli"]
BAD_INPUT = 2


def fewbits_command(
    *arguments: object, stdin: bytes = b"", code: int = 0
) -> subprocess.CompletedProcess[bytes]:
    done = warm_command.run(*arguments, stdin=stdin)
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done


def refused(*arguments: object, stdin: bytes = b"") -> str:
    """The one line that a command complains with."""
    done = fewbits_command(*arguments, stdin=stdin, code=BAD_INPUT)
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("fewbits: ")
    assert done.stdout == b""
    return lines[0]


def vector(shape: tuple[int, ...], dtype: object = np.float32, seed: int = 1) -> np.ndarray:
    """Values of both signs, from 1.25 to 1.5 times a power of two between 2^-8 and 2^7."""
    count = int(np.prod(shape))
    words = Rng.from_seed(seed).words(0, count).astype(np.int64)
    scale = np.exp2(words % 16 - 8)
    values = (1.25 + (words >> 8) / 2**26) * scale * np.where(words & 16, 1, -1)
    return values.astype(dtype).reshape(shape)


def is_natural(y: np.ndarray, x: np.ndarray) -> bool:
    """Whether `y` holds one of the two powers of two around each value of `x`, with its sign."""
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    below = np.exp2(np.floor(np.log2(np.abs(wide_x))))
    neighbours = (np.abs(wide_y) == below) | (np.abs(wide_y) == 2 * below)
    return bool((neighbours & (np.sign(wide_x) == np.sign(wide_y))).all())


def saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


@pytest.fixture
def gradient(tmp_path: Path) -> Path:
    return saved(tmp_path / "gradient.npy", vector((30, 40)))


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("float16", (7, 11, 13)),
        ("float64", (7, 11, 13)),
        *(("float32", shape) for shape in [(), (0,), (3, 0), (1,), (7, 11, 13)]),
    ],
    ids=str,
)
def test_an_array_comes_back_as_natural_powers_of_two(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    x = vector(shape, dtype)
    path = saved(tmp_path / "x.npy", x)
    fewbits_command("compress", path, "--seed", 7)
    frame = (tmp_path / "x.npy.fewbits").read_bytes()
    assert frame == fewbits.compress(x, "natural", seed=7)
    fewbits_command("decompress", f"{path}.fewbits", tmp_path / "y.npy")
    y = np.load(tmp_path / "y.npy")
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    assert is_natural(y, x)


@pytest.mark.parametrize(
    "x",
    [np.asfortranarray(vector((5, 6))), vector((9,)).astype(">f4")],
    ids=["Fortran order", "big endian"],
)
def test_any_memory_order_gives_the_frame_of_the_values(tmp_path: Path, x: np.ndarray) -> None:
    fewbits_command("compress", saved(tmp_path / "x.npy", x), "--seed", 7)
    expected = fewbits.compress(np.array(x, np.float32, order="C"), "natural", seed=7)
    assert (tmp_path / "x.npy.fewbits").read_bytes() == expected


def test_the_operator_is_the_one_that_was_asked_for(gradient: Path, tmp_path: Path) -> None:
    fewbits_command("compress", gradient, "--operator", "float16")
    fewbits_command("decompress", f"{gradient}.fewbits", tmp_path / "y.npy")
    x, y = np.load(gradient), np.load(tmp_path / "y.npy")
    np.testing.assert_array_equal(y, x.astype(np.float16).astype(np.float32))
    assert (y != x).any()


def test_without_a_seed_two_runs_differ_and_with_one_they_agree(gradient: Path) -> None:
    data = gradient.read_bytes()

    def frame(*options: object) -> bytes:
        return fewbits_command("compress", "-", *options, stdin=data).stdout

    assert frame() != frame()
    assert frame("--seed", 3) == frame("--seed", 3) != frame("--seed", 4)


def test_pipes_carry_arrays(gradient: Path) -> None:
    frame = fewbits_command("compress", "-", "--seed", 7, stdin=gradient.read_bytes())
    assert frame.stdout == fewbits.compress(np.load(gradient), "natural", seed=7)
    assert b"ratio" in frame.stderr
    back = fewbits_command("decompress", "-", stdin=frame.stdout).stdout
    assert back.startswith(b"\x93NUMPY")
    assert back.endswith(fewbits.decompress(frame.stdout).tobytes())


def model() -> dict[str, np.ndarray]:
    twin = vector((50, 60))
    return {
        "weight": twin,
        "twin": twin.copy(),
        "double": vector((11,), np.float64),
        "half": vector((3, 4), np.float16),
        "brain": vector((70, 3), ml_dtypes.bfloat16),
        "scalar": vector(()),
        "none": vector((0, 4)),
        "steps": np.arange(5),
        "mask": np.array([True, False]),
        "bytes": np.frombuffer(fewbits.compress(vector((3,)), "natural", seed=1), np.uint8).copy(),
    }


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(model(), path, {"format": "pt", "note": "é\n"})
    return path


def test_a_safetensors_file_comes_back_with_names_dtypes_shapes_and_metadata(
    checkpoint: Path, tmp_path: Path
) -> None:
    fewbits_command("compress", checkpoint, "--seed", 7)
    back = tmp_path / "back.safetensors"
    fewbits_command("decompress", f"{checkpoint}.fewbits", back)
    found = safetensors.numpy.load_file(back)
    assert found.keys() == model().keys()
    for name, x in model().items():
        assert (found[name].dtype, found[name].shape) == (x.dtype, x.shape)
        if name in ("steps", "mask", "bytes"):
            np.testing.assert_array_equal(found[name], x)
        else:
            assert is_natural(found[name], x)
    with safetensors.safe_open(back, "np") as file:
        assert file.metadata() == {"format": "pt", "note": "é\n"}


def test_the_container_is_a_safetensors_file_of_frames(checkpoint: Path) -> None:
    fewbits_command("compress", checkpoint)
    container = Path(f"{checkpoint}.fewbits").read_bytes()
    tensors = safetensors.numpy.load(container)
    assert tensors.keys() == model().keys()
    assert tensors["weight"].dtype == np.uint8
    assert fewbits.inspect(tensors["weight"]).shape == (50, 60)
    assert is_natural(fewbits.decompress(tensors["weight"]), model()["weight"])
    np.testing.assert_array_equal(tensors["bytes"], model()["bytes"])
    assert len(container) < checkpoint.stat().st_size / 2


def test_equal_tensors_do_not_share_their_draws(checkpoint: Path) -> None:
    fewbits_command("compress", checkpoint, "--seed", 7)
    tensors = safetensors.numpy.load(Path(f"{checkpoint}.fewbits").read_bytes())
    one, two = (fewbits.decompress(tensors[name]) for name in ("weight", "twin"))
    # A value rounds up with a probability p in [1/4, 1/2]: two draws differ with 2p(1-p) >= 3/8.
    # Over 3000 values the share has a deviation of at most 0.01.
    assert np.mean(one != two) > 3 / 8 - 0.05


def test_safetensors_go_through_pipes(checkpoint: Path) -> None:
    container = fewbits_command("compress", "-", "--seed", 7, stdin=checkpoint.read_bytes()).stdout
    fewbits_command("compress", checkpoint, "--seed", 7)
    assert container == Path(f"{checkpoint}.fewbits").read_bytes()
    back = fewbits_command("decompress", "-", stdin=container).stdout
    weight = np.frombuffer(dict(safetensors.deserialize(back))["weight"]["data"], np.float32)
    assert is_natural(weight, model()["weight"].ravel())


def test_exact_operators_give_the_same_safetensors_file(checkpoint: Path, tmp_path: Path) -> None:
    fewbits_command("compress", checkpoint, "--operator", "identity")
    back = tmp_path / "back.safetensors"
    fewbits_command("decompress", f"{checkpoint}.fewbits", back)
    expected = safetensors.numpy.load_file(checkpoint)
    found = safetensors.numpy.load_file(back)
    assert {name: value.tobytes() for name, value in found.items()} == {
        name: value.tobytes() for name, value in expected.items()
    }


def test_a_bfloat16_frame_needs_a_safetensors_file(tmp_path: Path) -> None:
    x = vector((5, 2), ml_dtypes.bfloat16)
    (tmp_path / "x.fewbits").write_bytes(fewbits.compress(x, "natural", seed=1))
    line = refused("decompress", tmp_path / "x.fewbits")
    assert "bfloat16" in line
    assert ".safetensors" in line
    fewbits_command("decompress", tmp_path / "x.fewbits", tmp_path / "x.safetensors")
    (y,) = safetensors.numpy.load_file(tmp_path / "x.safetensors").values()
    assert y.dtype == x.dtype
    assert is_natural(y, x)


def test_nothing_is_overwritten_without_force(gradient: Path) -> None:
    target = Path(f"{gradient}.fewbits")
    target.write_bytes(b"precious")
    assert "--force" in refused("compress", gradient)
    assert target.read_bytes() == b"precious"
    fewbits_command("compress", gradient, "--force", "--seed", 7)
    assert target.read_bytes() == fewbits.compress(np.load(gradient), "natural", seed=7)
    before = gradient.read_bytes()
    assert "--force" in refused("decompress", target)
    assert gradient.read_bytes() == before


def test_a_failure_leaves_no_file_behind(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.float32([1, np.nan]))
    refused("compress", path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.npy"]


def test_links_and_devices_are_written_through(gradient: Path, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    fewbits_command("compress", gradient, tmp_path / "link", "--force", "--seed", 7)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes().startswith(b"fewb")
    fewbits_command("compress", gradient, os.devnull)
    assert not Path(os.devnull).is_file()


def test_a_link_that_leads_nowhere_is_one_line(gradient: Path, tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    for force in ([], ["--force"]):
        assert "symbolic links" in refused("compress", gradient, tmp_path / "one", *force)
    assert (tmp_path / "one").is_symlink()
    assert (tmp_path / "two").is_symlink()


TERMINATED = """
import os, signal, sys, time
from fewbits.cli import files, main
def half(pieces, file, progress):
    file.write(bytes(pieces[0])[:7])
    file.flush()
    print(len(os.listdir(sys.argv[1])), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
files._copy = half
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("command", ["compress", "decompress"])
def test_a_command_that_is_told_to_end_leaves_no_half_file(
    command: str, gradient: Path, tmp_path: Path
) -> None:
    fewbits_command("compress", gradient)
    source = gradient if command == "compress" else f"{gradient}.fewbits"
    out = tmp_path / "out"
    out.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", TERMINATED, out, command, source, out / "result"],
        capture_output=True, timeout=50, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (b"1\n", b"")  # a temporary was there
    assert done.returncode == 143
    assert list(out.iterdir()) == []


def bad_files(folder: Path) -> dict[str, Path]:
    """Files that `compress` must refuse."""
    claim = b'{"a":{"dtype":"F32","shape":[1000],"data_offsets":[0,4000]}}'
    contents = {
        "text": b"hello, this is a text file\n",
        "empty": b"",
        "pickle": b"\x80\x04N.",
        "npy-cut": b"",
        "npy-code": b"\x93NUMPY\x01\0\x16\0__import__('os').x()\n ",
        "npy-version": b"\x93NUMPY\x09\0\x02\0{}",
        "safetensors-cut": b"\x40\0\0\0\0\0\0\0{",
        "safetensors-claims": struct.pack("<Q", len(claim)) + claim + bytes(4),
    }
    paths = {name: folder / name for name in contents}
    for name, path in paths.items():
        path.write_bytes(contents[name])
    whole = saved(folder / "whole.npy", vector((100,))).read_bytes()
    paths["npy-cut"].write_bytes(whole[:-1])
    paths["npy-more"] = folder / "npy-more"
    paths["npy-more"].write_bytes(whole + b"x")
    paths["npy-huge"] = folder / "npy-huge"
    paths["npy-huge"].write_bytes(whole.replace(b"(100,), }      ", b"(999999999,), }"))
    paths["npy-truth"] = folder / "npy-truth"
    paths["npy-truth"].write_bytes(whole.replace(b"(100,), } ", b"(True,), }")[: -99 * 4])
    paths["npz"] = folder / "x.npz"
    np.savez(paths["npz"], x=vector((3,)))
    arrays = {
        "objects": np.array([{"a": 1}], object),
        "nan": np.float32([1, np.nan]),
        "infinity": np.float64([1, np.inf]),
        "integers": np.arange(3),
        "complex": np.complex64([1]),
        "records": np.zeros(2, [("a", "f4")]),
        "text-array": np.array(["a"]),
    }
    for name, array in arrays.items():
        paths[name] = saved(folder / f"{name}.npy", array)
    paths["directory"] = folder / "directory"
    paths["directory"].mkdir()
    paths["missing"] = folder / "missing.npy"
    return paths


BAD_FILES = {
    "text": "neither",
    "empty": "neither",
    "pickle": "pickle",
    "npy-cut": "is cut",
    "npy-code": "broken",
    "npy-version": "broken",
    "npy-more": "too long",
    "npy-huge": "is cut",
    "npy-truth": "broken",
    "npz": ".npz",
    "safetensors-cut": "cut",
    "safetensors-claims": "ends at byte",
    "objects": "pickle",
    "nan": "--nonfinite carry",
    "infinity": "--nonfinite carry",
    "integers": "int64",
    "complex": "complex64",
    "records": "void32",
    "text-array": "str32",
    "directory": "is a directory",
    "missing": "no such file or directory",
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_input_is_one_line(tmp_path: Path, name: str) -> None:
    line = refused("compress", bad_files(tmp_path)[name], tmp_path / "out")
    assert BAD_FILES[name] in line
    assert not (tmp_path / "out").exists()


def test_non_finite_values_travel_when_asked_to(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.float32([1, np.nan]))
    fewbits_command("compress", path, "--nonfinite", "carry")
    fewbits_command("decompress", f"{path}.fewbits", tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.float32([1, np.nan]))


def test_a_bad_tensor_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    safetensors.numpy.save_file({"good": vector((3,)), "b\x1bd": np.float32([np.nan])}, path)
    line = refused("compress", path)
    assert "\\x1bd" in line
    assert "\x1b" not in line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--operator", "naturl"), "did you mean 'natural'"),
        (("--operator", "natural:rounding=up"), "stochastic or nearest"),
        (("--operator", "natural|natural"), "|"),
        (("--operator", ""), "unknown operator"),
        (("--seed", "1.5"), "--seed"),
        (("--nonfinite", "maybe"), "--nonfinite"),
        (("--what",), "--what"),
    ],
    ids=str,
)
def test_a_bad_option_is_one_line(
    gradient: Path, arguments: tuple[str, ...], expected: str
) -> None:
    assert expected in refused("compress", gradient, *arguments)


@pytest.mark.parametrize("where", ["no/such/place", ".", "not-a-directory/"])
def test_a_bad_place_for_the_result_is_one_line(gradient: Path, tmp_path: Path, where: str) -> None:
    assert "directory" in refused("compress", gradient, f"{tmp_path}/{where}")
    assert not (tmp_path / "not-a-directory").exists()


def test_the_result_may_be_named_after_the_options(gradient: Path, tmp_path: Path) -> None:
    frame, back = tmp_path / "frame", tmp_path / "back.npy"
    fewbits_command("compress", gradient, "--seed", 7, frame)
    assert frame.read_bytes() == fewbits.compress(np.load(gradient), "natural", seed=7)
    fewbits_command("decompress", frame, "--force", back)
    assert back.exists()
    said = refused("compress", gradient, "--seed", 7, frame, "more")
    assert said.endswith("frame more (see 'fewbits compress --help')")


def huge_frame(elements: int) -> bytes:
    """A frame with a right checksum that claims more than it holds."""
    head = Header(
        fewbits.reference.formats.FLOAT32, (elements,), (StageRecord(1),), (4 * elements,)
    ).encode()
    frame = np.zeros(len(head) + 4, np.uint8)
    frame[: len(head)] = np.frombuffer(head, np.uint8)
    seal(frame)
    return frame.tobytes()


def frames() -> dict[str, bytes]:
    good = bytes(fewbits.compress(vector((100,)), "natural", seed=1))
    return {
        "cut": good[:-1],
        "cut-short": good[:5],
        "more": good + b"x",
        "flipped": good[:60] + bytes([good[60] ^ 1]) + good[61:],
        "text": b"hello, this is a text file\n",
        "empty": b"",
        "huge": huge_frame(2**40),
    }


@pytest.mark.parametrize("command", ["decompress", "inspect"])
@pytest.mark.parametrize("name", frames())
def test_a_bad_frame_is_one_line(tmp_path: Path, command: str, name: str) -> None:
    path = tmp_path / "frame.fewbits"
    path.write_bytes(frames()[name])
    refused(command, path)
    assert not (tmp_path / "frame").exists()


def test_a_frame_cut_in_a_pipe_is_one_line() -> None:
    assert "99 given" in refused("decompress", "-", stdin=frames()["cut"][:99])


@pytest.mark.parametrize("command", ["decompress", "inspect"])
def test_other_files_are_no_frames(command: str, checkpoint: Path, tmp_path: Path) -> None:
    assert "neither" in refused(command, checkpoint)
    assert "is a directory" in refused(command, tmp_path)
    assert "no such file" in refused(command, tmp_path / "missing")


def test_the_limit_on_elements_is_the_callers(gradient: Path, tmp_path: Path) -> None:
    fewbits_command("compress", gradient)
    frame, out = f"{gradient}.fewbits", tmp_path / "y.npy"
    assert "--max-elements" in refused("decompress", frame, out, "--max-elements", 1199)
    fewbits_command("decompress", frame, out, "--max-elements", 1200)


def bomb(frames: int) -> dict[str, np.ndarray]:
    """Frames of a few bytes that stand for 65,536 zeros each."""
    frame = np.frombuffer(fewbits.compress(np.zeros(1 << 16, np.float32), "sign"), np.uint8)
    return {f"w{number}": frame.copy() for number in range(frames)}


def test_the_limit_on_elements_is_for_the_whole_file(tmp_path: Path) -> None:
    tensors, path, out = bomb(50), tmp_path / "bomb", tmp_path / "out.safetensors"
    assert sum(map(len, tensors.values())) < 4000
    metadata = {"fewbits": "1", "fewbits.frames": json.dumps(list(tensors))}
    safetensors.numpy.save_file(tensors, path, metadata)
    whole = 50 << 16
    line = refused("decompress", path, out, "--max-elements", whole - 1)
    assert "--max-elements" in line
    assert f"{whole}" in line
    assert not out.exists()
    fewbits_command("decompress", path, out, "--max-elements", whole)
    assert sum(map(len, safetensors.numpy.load_file(out).values())) == whole


def test_the_limit_comes_before_the_first_tensor_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors, path = bomb(3), tmp_path / "bomb"
    metadata = {"fewbits": "1", "fewbits.frames": json.dumps(list(tensors))}
    safetensors.numpy.save_file(tensors, path, metadata)
    made: list[tuple[int, ...]] = []
    new_array = codec.vector.new_array

    def counted(format: Format, shape: tuple[int, ...]) -> object:
        made.append(shape)
        return new_array(format, shape)

    monkeypatch.setattr(codec.vector, "new_array", counted)
    options = [str(path), str(tmp_path / "out.safetensors"), "--max-elements"]
    assert main(["decompress", *options, str((3 << 16) - 1)]) == BAD_INPUT
    assert made == []
    assert main(["decompress", *options, str(3 << 16)]) == 0
    assert made == [(1 << 16,)] * 3


def broken_containers() -> dict[str, Callable[[dict[str, str]], dict[str, str]]]:
    return {
        "nothing": lambda metadata: metadata,
        "version": lambda metadata: {**metadata, "fewbits": "2"},
        "no list": lambda metadata: {"fewbits": "1"},
        "not JSON": lambda metadata: {**metadata, "fewbits.frames": "["},
        "a missing tensor": lambda metadata: {**metadata, "fewbits.frames": '["lost"]'},
        "a tensor twice": lambda metadata: {**metadata, "fewbits.frames": '["w","w"]'},
        "a tensor that is no frame": lambda metadata: {**metadata, "fewbits.frames": '["n"]'},
        "bytes that are no frame": lambda metadata: {**metadata, "fewbits.frames": '["b"]'},
    }


@pytest.mark.parametrize("name", broken_containers())
def test_a_container_with_something_broken_is_one_line(tmp_path: Path, name: str) -> None:
    frame = np.frombuffer(fewbits.compress(vector((9,)), "natural", seed=1), np.uint8)
    tensors = {"w": frame.copy(), "n": np.arange(3), "b": np.arange(30, dtype=np.uint8)}
    metadata = {"fewbits": "1", "fewbits.frames": '["w"]'}
    path = tmp_path / "container"
    safetensors.numpy.save_file(tensors, path, broken_containers()[name](metadata))
    if name == "nothing":
        assert "already" in refused("compress", path)
        fewbits_command("decompress", path)
    else:
        refused("decompress", path)
    assert (tmp_path / "container.safetensors").exists() == (name == "nothing")


def test_saturated_values_are_a_warning(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.float32([1, 3e38]))
    done = fewbits_command("compress", path)
    assert done.stderr.startswith(b"fewbits: warning: 1 of 2 values")
    assert done.stderr.count(b"\n") == 2


def test_inspect_says_what_the_library_says(gradient: Path) -> None:
    fewbits_command("compress", gradient, "--operator", "natural:rounding=nearest")
    info = fewbits.inspect(Path(f"{gradient}.fewbits").read_bytes())
    assert fewbits_command("inspect", f"{gradient}.fewbits").stdout.decode() == f"{info}\n"
    shown = json.loads(fewbits_command("inspect", f"{gradient}.fewbits", "--json").stdout)
    assert shown["kind"] == "frame"
    assert shown["operator"] == "natural:rounding=nearest"
    assert shown["shape"] == [30, 40]
    assert shown["bytes"] == Path(f"{gradient}.fewbits").stat().st_size
    assert shown["bits_per_value"] == 8 * shown["bytes"] / 1200


def test_inspect_lists_the_tensors_of_a_container(checkpoint: Path) -> None:
    fewbits_command("compress", checkpoint)
    shown = json.loads(fewbits_command("inspect", f"{checkpoint}.fewbits", "--json").stdout)
    assert shown["metadata"] == {"format": "pt", "note": "é\n"}
    kinds = {row["name"]: row["kind"] for row in shown["tensors"]}
    raw = {"steps", "mask", "bytes"}
    assert kinds == {name: "raw" if name in raw else "frame" for name in model()}
    table = fewbits_command("inspect", f"{checkpoint}.fewbits").stdout.decode()
    assert all(name in table for name in model())


def test_json_summaries_state_measured_sizes(gradient: Path) -> None:
    done = fewbits_command("compress", gradient, "--json")
    summary, target = json.loads(done.stdout), Path(f"{gradient}.fewbits")
    assert done.stderr == b""
    assert summary["operator"] == "natural"
    assert summary["bytes_in"] == gradient.stat().st_size
    assert summary["bytes_out"] == target.stat().st_size
    assert summary["bytes_of_values"] == np.load(gradient).nbytes < summary["bytes_in"]
    assert summary["ratio"] == summary["bytes_of_values"] / summary["bytes_out"] > 3
    shown = json.loads(fewbits_command("inspect", target, "--json").stdout)
    assert shown["ratio"] == summary["ratio"]
    back = json.loads(fewbits_command("decompress", target, "--json", "--force").stdout)
    assert back["bytes_out"] == summary["bytes_in"]
    piped = fewbits_command("compress", "-", "--json", stdin=gradient.read_bytes())
    assert json.loads(piped.stderr)["bytes_out"] == len(piped.stdout)


def test_an_empty_array_has_no_bits_a_value_and_one_ratio(tmp_path: Path) -> None:
    source = tmp_path / "empty.npy"
    np.save(source, np.zeros((0, 3), np.float32))
    told = fewbits_command("compress", source).stderr.decode()
    assert "0 bytes of values to 21, ratio 0.00" in told
    shown = fewbits_command("inspect", f"{source}.fewbits").stdout.decode()
    assert "bits/value none, it is empty\nratio      0.00" in shown


def test_operators_lists_every_operator_with_its_guarantee_and_size() -> None:
    shown = json.loads(fewbits_command("operators", "--json").stdout)
    found = {operator["name"]: operator for operator in shown["operators"]}
    known = fewbits.registry.catalogue()
    assert found.keys() == known.by_name.keys() | known.stages.keys()
    stochastic, nearest, coded = found["natural"]["specs"]
    assert (stochastic["omega"], stochastic["alpha"]) == (1 / 8, None)
    assert (nearest["omega"], nearest["alpha"], nearest["sure"]) == (None, 1 / 9, True)
    assert 9 < stochastic["bits_per_value"] < 9.01
    assert (coded["omega"], coded["alpha"]) == (1 / 8, None)
    assert coded["bits_per_value"] < 4
    assert found["natural"]["parameters"][0]["choices"] == ["stochastic", "nearest"]
    table = fewbits_command("operators").stdout.decode()
    assert all(name in table for name in found)


@pytest.mark.parametrize("command", ["compress", "decompress", "inspect", "operators", "bench"])
def test_help_shows_an_example(command: str) -> None:
    text = fewbits_command(command, "--help").stdout.decode()
    assert f"example:\n  fewbits {command}" in text
    assert "--json" in text


def test_no_command_prints_help_and_is_an_error() -> None:
    done = fewbits_command(code=BAD_INPUT)
    assert b"compress" in done.stderr


def test_an_unknown_command_is_one_line() -> None:
    assert "compress" in refused("squeeze")
    assert "squeeze" in refused("bench", "squeeze")


def test_version_is_the_packages() -> None:
    assert fewbits_command("--version").stdout.decode() == f"fewbits {fewbits.__version__}\n"


def test_a_reader_that_leaves_is_no_noise() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*COMMAND, "operators"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line(gradient: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "compress", gradient, "-"], stdout=full, stderr=-1)
    assert done.stderr == b"fewbits: no space left on device\n"
    assert done.returncode == BAD_INPUT


def test_an_interrupt_ends_quietly() -> None:
    def listen() -> None:  # whoever runs the tests in the background may ignore interrupts
        signal.signal(signal.SIGINT, signal.default_int_handler)

    process = subprocess.Popen(
        [*COMMAND, "compress", "-"], stdin=-1, stdout=-1, stderr=-1, preexec_fn=listen
    )
    assert process.stdin is not None
    # The pipe holds less than this, so the write returns only when the command is reading.
    process.stdin.write(bytes(1 << 20))
    process.stdin.flush()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, complaint = process.communicate(timeout=60)
    assert (process.returncode, output, complaint) == (130, b"", b"")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["inspect", "--help"]])
def test_only_the_command_that_is_called_is_imported(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom fewbits.cli import COMMANDS, main\n"
        f"assert main({arguments!r}) == 0\n"
        "print(*sorted(sys.modules), sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    found = set(done.stderr.decode().split())
    commands = {f"fewbits.cli.{name}" for name in COMMANDS}
    assert commands & found == {f"fewbits.cli.{name}" for name in arguments if name in COMMANDS}
    assert not found & {"torch", "fewbits.theory", "fewbits.bench", "fewbits_lab", "difflib"}
