"""The comparison of entropy coders: what it reports holds, whatever is installed and however fast.

The recording of gradients that feeds it writes vectors that it can read.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from fewbits.bench.timing import Plan
from fewbits.errors import FewbitsError, SpecError
from fewbits_lab.cli import main
from fewbits_lab.coders import candidates as coders
from fewbits_lab.coders import comparison as coding

ROOT = Path(__file__).resolve().parents[2]
RECORDER = ("-m", "fewbits_lab.recordings")
FIGURES = (
    "bytes", "bits_per_symbol", "over_entropy", "over_block_entropy", "encode_gigasymbols",
    "decode_gigasymbols", "rounds",
)  # fmt: skip
ONCE = Plan(rounds=1)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    """`fewbits-lab coders` in this process."""

    def call(*arguments: object) -> SimpleNamespace:
        code = main(["coders", *map(str, arguments)])
        said = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=said.out, stderr=said.err)

    return call


def test_json_has_every_coder_on_every_input_and_sizes_are_possible(
    bench: Callable[..., SimpleNamespace], tmp_path: Path
) -> None:
    plot = tmp_path / "coding.svg"
    done = bench("--quick", "--elements", 20000, "--json", "--plot", plot)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {"machine", "inputs", "coders", "operators"} == report.keys()
    inputs = {own["name"]: own for own in report["inputs"]}
    assert [own["elements"] for own in report["inputs"]] == [
        *(20_000, coding.CODER_SMALL),
        *(20_000 for _ in coding.CODER_ZEROS),
    ]
    for percent in coding.CODER_ZEROS:
        own = inputs[coding.sparse(20_000, percent).name]
        assert own["zeros"] == pytest.approx(percent / 100, abs=0.01)
    expected = [(name, coder.name) for name in inputs for coder in coders.CODERS]
    assert [(row["input"], row["coder"]) for row in report["coders"]] == expected
    for row in report["coders"]:
        own = inputs[row["input"]]
        if row["status"] == coding.NOT_INSTALLED:
            assert all(row[figure] is None for figure in FIGURES)
            continue
        assert row["status"] == coding.MEASURED
        assert row["round_trip"] is True
        assert all(row[figure] > 0 for figure in FIGURES)
        # The vectors have no order that a coder could use: nobody beats the entropy.
        assert row["bits_per_symbol"] >= own["entropy"] * 0.99
        assert row["bits_per_symbol"] == 8 * row["bytes"] / own["elements"]
        assert row["over_entropy"] == pytest.approx(row["bits_per_symbol"] / own["entropy"])
    for row in report["operators"]:
        assert row["ratio"] == pytest.approx(
            4 * inputs[row["input"]]["elements"] / row["frame_bytes"]
        )
        assert row["memcpy_ratio_median"] > 0
    specs = {row["spec"] for row in report["operators"]}
    assert specs == {coding.CODER_PACKED, coding.CODER_CODED}
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")


def test_the_table_names_what_is_missing_and_how_to_record(
    bench: Callable[..., SimpleNamespace],
) -> None:
    done = bench("--quick", "--elements", 1000, "--repeats", 1)
    assert done.returncode == 0, done.stderr
    assert "decode Gsym/s" in done.stdout
    assert "fewbits_lab.recordings" in done.stdout
    assert all(coder.name in done.stdout for coder in coders.CODERS)


def test_a_folder_without_gradients_is_one_line_that_says_how_to_record(
    bench: Callable[..., SimpleNamespace], tmp_path: Path
) -> None:
    done = bench("--gradients", tmp_path / "none")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "fewbits_lab.recordings" in done.stderr


def test_a_plot_without_a_folder_is_refused_before_anything_is_measured(
    bench: Callable[..., SimpleNamespace], tmp_path: Path
) -> None:
    done = bench("--plot", tmp_path / "none" / "coding.svg")
    assert done.returncode == 2
    assert done.stderr.startswith("fewbits-lab: --plot")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "array",
    [np.zeros(3), np.zeros((2, 2), np.float32), np.float32([1, np.nan]), np.zeros(0, np.float32)],
    ids=["float64", "matrix", "nan", "empty"],
)
def test_what_is_no_gradient_is_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "bad.npy", array)
    (source,) = coding.recorded(tmp_path)
    with pytest.raises(SpecError, match=r"bad\.npy"):
        source.load()


def test_a_file_that_is_no_array_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.npy").write_bytes(b"no array")
    (source,) = coding.recorded(tmp_path)
    with pytest.raises(SpecError, match=r"bad\.npy"):
        source.load()


@pytest.mark.parametrize("elements", [1, 2, 7, 1000])
def test_small_and_constant_vectors_are_measured_too(elements: int) -> None:
    sources = [
        coding.gaussian(elements),
        coding.VectorSource("zeros", lambda: np.zeros(elements, np.float32)),
    ]
    report = coding.run(sources, ONCE)
    assert [own.elements for own in report.inputs] == [elements] * 2
    assert all(row.round_trip for row in report.coders if row.status == coding.MEASURED)
    assert report.inputs[1].zeros == 1
    assert all(row.over_entropy is None for row in report.coders if row.input == "zeros")


def test_entropies_are_those_of_known_messages() -> None:
    assert coding.entropy(np.zeros(9, np.uint8)) == 0
    assert coding.entropy(np.arange(8, dtype=np.uint8)) == pytest.approx(3)
    halves = np.repeat(np.uint8([3, 200]), coding.COMPARED_BLOCK)
    own = coding.described("halves", halves)
    assert (own.entropy, own.block_entropy, own.distinct) == (pytest.approx(1), 0, 2)


def test_the_symbols_are_those_that_natural_sends() -> None:
    import fewbits
    from fewbits.wire import frame as wire

    x = coding.gaussian(1000).load()
    frame = np.frombuffer(fewbits.compress(x, "natural", seed=coding.SEED), np.uint8)
    assert np.array_equal(coding.exponents(x), wire.parse(frame, x.size).sections[0])


def test_a_coder_that_forgets_a_symbol_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(_: object, symbols: np.ndarray) -> coders.CoderJob:
        return coders.CoderJob(symbols.tobytes, lambda message: np.zeros_like(symbols))

    wrong = coders.Coder("forgetful", "none", lambda: True, forgetful)
    monkeypatch.setattr(coding, "CODERS", (wrong,))
    with pytest.raises(FewbitsError, match="wrong result: forgetful"):
        coding.run([coding.gaussian(100)], ONCE)


def test_a_missing_package_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = coders.Coder("absent", "none", lambda: coders._module("no_such_package"), lambda *_: 0)
    monkeypatch.setattr(coding, "CODERS", (absent,))
    (row,) = coding.run([coding.gaussian(100)], ONCE).coders
    assert row == coding.CoderRow("gaussian 100", "absent", coding.NOT_INSTALLED)


def test_recording_explains_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from fewbits_lab.recordings.__main__ import main as record

    monkeypatch.setattr(sys, "argv", ["recordings", "--help"])
    with pytest.raises(SystemExit, match="0"):
        record()
    assert {"--models", "--steps", "--out", "--text"} <= set(capsys.readouterr().out.split())


def test_a_tiny_recording_is_finite_repeatable_and_readable(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    vectors = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        done = run(*RECORDER, "--models", "cnn", "--steps", 1, 3, "--out", folder)
        assert done.returncode == 0, done.stderr
        sources = coding.recorded(folder)
        assert [own.name for own in sources] == ["cnn-step0001", "cnn-step0003"]
        vectors.append([own.load() for own in sources])
        about = json.loads((folder / "gradients.json").read_text())
        assert {row["values"] for row in about.values()} == {vectors[-1][0].size}
    first, second = vectors
    assert np.count_nonzero(first[0]) > first[0].size // 4
    assert not np.array_equal(first[0], first[1])
    assert all(np.allclose(a, b, rtol=1e-3, atol=1e-6) for a, b in zip(first, second, strict=True))
