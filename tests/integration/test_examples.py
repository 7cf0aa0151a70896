"""Every example runs by itself, and the second decoder agrees with the library."""

import json
import os
import re
import runpy
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fewbits
from fewbits.wire.frame import seal
from printed import PRINTED, losses

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DECODER = EXAMPLES / "decode_by_hand.py"
GOOD = ROOT / "tests" / "golden" / "good"
BAD = ROOT / "tests" / "golden" / "bad"
BY_HAND = (
    "coded",
    "decode",
    "dithering",
    "formats",
    "lanes",
    "paths",
    "places",
    "random",
    "sparse",
    "spherical",
    "stages",
    "tables",
    "trellis",
)
PLAIN = (
    "identity",
    "float16",
    "bfloat16",
    "natural",
    "natural:rounding=nearest",
    "natural:coder=rans",
)
SPECS = (
    *PLAIN,
    "top-k|identity",
    "top-k:fraction=0.4|natural",
    "top-k:fraction=0.7|natural:coder=rans",
    "rand-k|natural",
    "rand-k:fraction=0.5|top-k:fraction=0.5|float16",
    "hadamard|natural",
    "hadamard:block=16,signs=private|identity",
    "natural-dithering",
    "natural-dithering:p=2,levels=3,block=8,scale=natural,coder=rans",
    "standard-dithering:p=1.5,levels=31",
    "sign:block=16",
    "sparse-dithering",
    "sparse-dithering:nu=30,scale=least-squares,block=7",
    "sparse-dithering:nu=0.25,rounding=stochastic",
    "sparse-dithering:rounding=subtractive",
    "sparse-dithering:rounding=subtractive,block=11",
    "sparse-dithering:coder=paper",
    "sparse-dithering:rounding=stochastic,coder=paper,block=20",
    "spherical",
    "spherical:alpha=0.25,block=7,scale=unbiased",
)


def run(script: Path, *arguments: str | Path, isolated: bool = False) -> str:
    """What a script prints in a process of its own; `-I -S` leaves it nothing but Python itself."""
    options = ["-I", "-S"] if isolated else []
    command = [sys.executable, *options, str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def decoder() -> Callable[[bytes], tuple]:
    return runpy.run_path(str(DECODER))["decode"]


def decoded_by_hand(frame: bytes) -> list[int]:
    return decoder()(frame)[3]


def decoded(frame: bytes) -> list[int]:
    values = fewbits.decompress(frame)
    return values.ravel().view(f"u{values.itemsize}").tolist()


def outcome(decode: Callable[[bytes], list[int]], frame: bytes) -> list[int] | None:
    """The bits of the values, or None for a refusal."""
    try:
        return decode(frame)
    except ValueError:  # a DecodeError is one
        return None


def changed(frame: bytes, at: int, *values: int) -> bytes:
    """The frame with other bytes at one place, behind a checksum that is right again."""
    data = np.frombuffer(bytearray(frame), np.uint8)
    data[at : at + len(values)] = values
    seal(data)
    return data.tobytes()


def test_every_example_has_a_test() -> None:
    training = {"ddp.py", "ddp_grad_scaler.py", "ddp_lightning.py", *STATED}
    known = {f"{part}_by_hand.py" for part in BY_HAND} | {"vector_to_bytes.py"} | training
    assert {path.name for path in EXAMPLES.glob("*.py")} == known


def test_vector_to_bytes_prints_the_sizes() -> None:
    shown = run(EXAMPLES / "vector_to_bytes.py")
    assert shown.startswith("4,000,000 bytes became 1,125,033\n")


@pytest.mark.parametrize("part", BY_HAND)
def test_the_second_decoder_has_files_of_at_most_200_lines_and_few_imports(part: str) -> None:
    text = (EXAMPLES / f"{part}_by_hand.py").read_text()
    imports = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert len(text.splitlines()) <= 200
    assert not any(
        name in line for line in imports for name in ("fewbits", "numpy", "struct", "zlib")
    )


def test_the_second_decoder_reads_golden_frames_of_every_operator_with_a_chapter() -> None:
    text = (ROOT / "docs" / "format.md").read_text()
    headings = "".join(re.findall(r"^#### .*|^### 5.*", text, re.MULTILINE))
    chapters = re.findall(r"`([\w-]+)`", headings)
    assert len(chapters) >= 12
    frames = sorted(path for name in chapters for path in GOOD.glob(f"{name}/*.bin"))
    assert frames, f"no golden frames in {GOOD}"
    lines = run(DECODER, *frames, isolated=True).splitlines()
    for path, line in zip(frames, lines, strict=True):
        expected, found = json.loads(path.with_suffix(".json").read_text()), json.loads(line)
        for key in ("spec", "dtype", "shape", "values_sha256"):
            assert found[key] == expected[key], f"{path.name}: {key}"


def test_both_decoders_have_one_opinion_of_every_bad_golden_frame() -> None:
    frames = sorted(BAD.glob("**/*.bin"))
    assert frames, f"no bad frames in {BAD}"
    for path in frames:
        frame = path.read_bytes()
        assert outcome(decoded, frame) == outcome(decoded_by_hand, frame), path.name


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_second_decoder_gives_the_librarys_bits(spec: str, dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    bits = np.random.default_rng(3).bytes(60 * np.dtype(dtype).itemsize)
    x = np.frombuffer(bits, dtype).reshape(5, 12)  # any pattern: NaN, subnormal, huge
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fewbits.SaturationWarning)
        frame = fewbits.compress(x, spec, seed=3, nonfinite="carry")
    found, format, shape, values = decoder()(frame)
    raw = b"".join(value.to_bytes(format.size, "little") for value in values)
    assert (found, format.name, tuple(shape)) == (spec, np.dtype(dtype).name, x.shape)
    assert raw == fewbits.decompress(frame).tobytes()


def check_damaged(spec: str, others: Callable[[int], Iterable[int]]) -> None:
    """Both decoders agree whatever each byte is, behind a checksum that is right again."""
    pytest.importorskip("ml_dtypes")
    for dtype in ("float32", "float16"):
        frame = fewbits.compress(np.array([1.0, -0.3, 0.0], dtype), spec, seed=1)
        for at in range(len(frame) - 4):
            for value in others(frame[at]):
                damaged = changed(frame, at, value)
                assert outcome(decoded, damaged) == outcome(decoded_by_hand, damaged), damaged.hex()


WHOLE = ("bfloat16", "natural")  # with all bytes at every place in the gate too


@pytest.mark.parametrize(
    "spec",
    [*WHOLE, *(pytest.param(own, marks=pytest.mark.soak) for own in SPECS if own not in WHOLE)],
)
def test_both_decoders_accept_the_same_damaged_frames(spec: str) -> None:
    check_damaged(spec, lambda _: range(256))


@pytest.mark.parametrize("spec", [own for own in SPECS if own not in WHOLE])
def test_both_decoders_accept_the_same_frames_with_neighbouring_bytes(spec: str) -> None:
    """One bit is flipped, 1 is added or taken away, or the byte is 0 or 255."""
    check_damaged(
        spec,
        lambda own: {own ^ 1 << bit for bit in range(8)} | {(own + 1) % 256, own - 1 & 255, 0, 255},
    )


def test_both_decoders_refuse_a_nan_that_no_encoder_writes() -> None:
    frame = fewbits.compress(np.float32([np.nan]), "float16", nonfinite="carry")
    at = len(frame) - 6
    assert outcome(decoded, frame) == outcome(decoded_by_hand, frame) == [0x7FC00000]
    for low, high in ((0x01, 0x7E), (0x00, 0xFE), (0x01, 0x7C)):
        damaged = changed(frame, at, low, high)
        assert outcome(decoded, damaged) is None
        assert outcome(decoded_by_hand, damaged) is None


STATED = {  # what each of these needs, by its own words, beside fewbits[torch]
    "fsdp.py": "nothing else",
    "hsdp.py": "nothing else",
    "local_sgd.py": "nothing else",
    "local_sgd_lightning.py": "lightning",
    "streaming.py": "nothing else",
    "ddp_accelerate.py": "accelerate",
    "ddp_monitoring.py": "nothing else",
    "ddp_nodes.py": "nothing else",
    "ddp_survivors.py": "nothing else",
    "ddp_ray.py": "ray[train]",
}


@pytest.mark.parametrize("script", STATED)
def test_an_example_is_short_and_imports_what_it_says(script: str) -> None:
    text = (EXAMPLES / script).read_text()
    assert len(text.splitlines()) < 100
    assert f"It needs fewbits[torch] and {STATED[script]}." in text
    words = [line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))]
    others = {word.partition(".")[0] for word in words} - set(sys.stdlib_module_names)
    assert others <= {"fewbits", "torch", STATED[script].partition("[")[0]}


def torchrun(script: str, *options: str) -> list[str]:
    """A torchrun command line; one port for each test process, so that two can run side by side."""
    return [sys.executable, "-m", "torch.distributed.run", *options, str(EXAMPLES / script)]


def finished(*commands: list[str], clean: bool = False, seconds: float = 120) -> str:
    """What several commands print; all run at the same time and must succeed.

    In a `clean` shell there is nothing but a path and a home.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = (kept if clean else os.environ) | {"OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        for command in commands
    ]
    outputs = [process.communicate(timeout=seconds) for process in running]
    for process, (_, errors) in zip(running, outputs, strict=True):
        assert process.returncode == 0, errors
    return "".join(printed for printed, _ in outputs)


def test_the_ddp_example_trains_and_reports_fewer_bytes():
    printed = finished(torchrun("ddp.py", "--standalone", "--nproc-per-node", "2"), clean=True)
    first, *_, last = losses(printed)
    assert last < first / 10
    assert "3.44× less than plain all-reduce" in printed


@pytest.mark.soak
def test_the_ddp_example_runs_on_two_torchrun_nodes():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    nodes = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d")
    command = torchrun("ddp.py", *nodes, "--rdzv-endpoint", endpoint, "--rdzv-id", "example")
    with_local = [*command[:3], "--local-addr", "127.0.0.1", *command[3:]]
    assert "less than plain all-reduce" in finished(with_local, with_local)


@pytest.mark.soak
def test_the_lightning_example_compresses():
    printed = finished([sys.executable, str(EXAMPLES / "ddp_lightning.py")])
    assert "2 ranks, 16 steps" in printed
    assert "less than plain all-reduce" in printed


@pytest.mark.soak
def test_the_accelerate_example_trains_and_reports_fewer_bytes() -> None:
    pytest.importorskip("accelerate")
    command = torchrun("ddp_accelerate.py", "--standalone", "--nproc-per-node", "2")
    printed = finished(command, clean=True)
    first, last = losses(printed)
    assert last < first < 1
    assert "3.44× less than plain all-reduce" in printed


@pytest.mark.soak
def test_the_lightning_example_of_local_sgd_ends_with_equal_replicas() -> None:
    pytest.importorskip("lightning")
    command = torchrun("local_sgd_lightning.py", "--standalone", "--nproc-per-node", "2")
    printed = finished(command, clean=True)
    sums = [line.split()[-1] for line in printed.splitlines() if "add up to" in line]
    assert len(sums) == 2
    assert sums[0] == sums[1]
    assert "128 steps in 16 rounds of up to 8, outer step nesterov" in printed


@pytest.mark.soak
def test_the_ray_example_trains_and_reports_fewer_bytes() -> None:
    for package in ("ray", "pandas", "pyarrow", "tensorboardX"):
        pytest.importorskip(package, reason="needs pip install 'ray[train]', which is large")
    # Ray starts a dozen processes before the first step, and says what its workers print on stderr.
    script = [sys.executable, str(EXAMPLES / "ddp_ray.py")]
    printed = finished(["sh", "-c", '"$@" 2>&1', "sh", *script], seconds=400)
    first, _, last = printed.partition(" loss ")[2].split()[:3]
    assert float(last) < float(first) / 10
    assert "3.44× less than plain all-reduce" in printed


@pytest.mark.soak  # torchrun starts every rank anew; the gate forks them: distributed/test_examples
@pytest.mark.parametrize("script", PRINTED)
def test_an_example_under_torchrun_prints_what_it_should(script: str) -> None:
    ranks, arguments, check = PRINTED[script]
    command = torchrun(script.partition(" ")[0], "--standalone", "--nproc-per-node", str(ranks))
    check(finished([*command, *arguments], clean=True))
