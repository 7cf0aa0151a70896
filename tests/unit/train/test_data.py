"""What `fewbits train` does without torch: data, settings, estimates, verdicts."""

import gzip
import io
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from fewbits.cli import train as train_command
from fewbits.cli.console import Parser
from fewbits.errors import MissingExtraError, SpecError
from fewbits.train import data, extras, formats, references, settings, verdict


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, *, zipped: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    images, labels = rng.integers(0, 256, (7, 5, 5)), np.arange(7) % 3
    for part, rows in (("train", slice(0, 4)), ("t10k", slice(4, 7))):
        for name, array in ((f"{part}-images-idx3", images), (f"{part}-labels-idx1", labels)):
            content = idx(array[rows])
            if zipped:
                (folder / f"{name}-ubyte.gz").write_bytes(gzip.compress(content))
            else:
                (folder / f"{name}-ubyte").write_bytes(content)
    return images, labels


@pytest.mark.parametrize("zipped", [False, True])
def test_idx_files_give_their_images_and_labels(tmp_path: Path, zipped: bool) -> None:
    images, labels = write_mnist(tmp_path, zipped=zipped)
    loaded = data.load(str(tmp_path))
    assert loaded.train.inputs.shape == (4, 1, 5, 5)
    assert np.array_equal(loaded.test.inputs[:, 0], images[4:])
    assert np.array_equal(loaded.test.targets, labels[4:])
    assert loaded.classes == 3
    scaled, _ = loaded.batch(loaded.train, np.arange(4))
    assert scaled.dtype == np.float32
    assert np.allclose(scaled[:, 0], images[:4] / 127.5 - 1, atol=1e-6)


@pytest.mark.parametrize(
    "damage",
    [lambda raw: raw[:-1], lambda raw: raw + b"x", lambda raw: raw[:3], lambda raw: b"\1" + raw],
)
def test_a_damaged_idx_file_is_refused_by_name(tmp_path: Path, damage) -> None:
    write_mnist(tmp_path, zipped=False)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SpecError, match="train-images-idx3-ubyte"):
        data.load(str(tmp_path))


def test_a_small_gz_takes_little_memory(tmp_path: Path) -> None:
    """The limit is one on what a file unpacks to, not what is set aside for it."""
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(bytes(3 * formats._PIECE + 5)))
    tracemalloc.start()
    try:
        assert formats.read_bytes(path) == bytes(3 * formats._PIECE + 5)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_a_truncated_gz_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path, zipped=True)
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SpecError, match="train-labels"):
        data.load(str(tmp_path))


def test_an_npz_of_jpeg_images_is_decoded(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pictures = []
    for red in (0, 250, 250):
        buffer = io.BytesIO()
        pixels = np.full((8, 8, 3), (red, 0, 0), np.uint8)
        image.fromarray(pixels).save(buffer, "JPEG")
        pictures.append(buffer.getvalue())
    np.savez(
        tmp_path / "tiny.npz",
        data=np.frombuffer(b"".join(pictures), np.uint8),
        offset=np.cumsum([0, *map(len, pictures)]).astype(np.uint32),
        label=np.uint8([0, 1, 1]),
        is_test=np.array([False, False, True]),
    )
    loaded = data.load(str(tmp_path))
    assert loaded.train.inputs.shape == (2, 3, 8, 8)
    assert loaded.train.inputs[0, 0].max() < 10
    assert loaded.test.inputs[0, 0].min() > 240
    assert loaded.test.targets.tolist() == [1]


def test_text_becomes_blocks_whose_targets_are_the_next_characters(tmp_path: Path) -> None:
    text = "".join(chr(97 + i % 7) for i in range(3000))
    (tmp_path / "input.txt.gz").write_bytes(gzip.compress(text.encode()))
    loaded = data.load(str(tmp_path))
    assert loaded.is_text
    assert loaded.classes == 7
    assert loaded.train.inputs.shape == (2699 // data.CONTEXT, data.CONTEXT)
    assert np.array_equal((loaded.train.inputs + 1) % 7, loaded.train.targets)


def test_digits_come_without_a_download() -> None:
    pytest.importorskip("sklearn")
    loaded = data.load("digits")
    assert len(loaded.train.inputs) + len(loaded.test.inputs) == 1797
    assert loaded.train.inputs.max() == 16
    assert loaded.classes == 10
    assert np.bincount(loaded.test.targets).min() >= 25


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(
        MissingExtraError, match=r"scikit-learn: pip install '\.\[demo\]' in a checkout, or "
    ):
        data.load("digits")
    with pytest.raises(MissingExtraError, match="no_such_package"):
        extras.check_installed("no_such_package")


@pytest.mark.parametrize("content", [None, "notes.md"])
def test_a_folder_without_data_is_refused(tmp_path: Path, content: str | None) -> None:
    if content:
        (tmp_path / content).write_text("")
    with pytest.raises(SpecError, match="--data"):
        formats.kind_of(str(tmp_path if content else tmp_path / "absent"))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_share_the_same_global_batches(ranks: int) -> None:
    batches = data.order(3, 1, 30, 8)
    assert batches.shape == (3, 8)
    assert len(set(batches.ravel())) == 24
    for batch in batches:
        parts = [data.share(batch, rank, ranks) for rank in range(ranks)]
        assert np.array_equal(np.concatenate(parts), batch)
    assert np.array_equal(batches, data.order(3, 1, 30, 8))
    assert not np.array_equal(batches, data.order(3, 2, 30, 8))
    assert not np.array_equal(batches, data.order(4, 1, 30, 8))


def parsed(*arguments: str) -> settings.TrainSettings:
    parser = Parser()
    train_command.add_options(parser)
    return settings.from_options(parser.parse_args(arguments))


def test_settings_survive_their_own_command_line(tmp_path: Path) -> None:
    given = ("--operator", "natural", "--lr", "0.1", "--checkpoint", str(tmp_path), "--resume")
    chosen = parsed(*given, "--downlink", "identity", "--seed", "9")
    assert parsed(*chosen.arguments()) == chosen
    assert parsed().operators == settings.DEFAULT_OPERATORS
    linked = parsed("--link", "100Mbit")
    assert parsed(*linked.arguments()) == linked
    assert linked.operators == settings.LINK_OPERATORS
    assert parsed("--link", "none") == parsed()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--operator", "nonsense"),
        ("--operator", "powersgd:rank=0"),
        ("--operator", "none", "--operator", "none"),
        ("--downlink", "nonsense"),
        ("--data", "/does/not/exist"),
        ("--model", "gpt"),
        ("--workers", "0"),
        ("--batch-size", "63"),
        ("--epochs", "0"),
        ("--lr", "nan"),
        ("--momentum", "1"),
        ("--seed", "-1"),
        ("--resume",),
        ("--resume", "--checkpoint", "/does/not/exist"),
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SpecError):
        parsed(*arguments)


def test_a_checkpoint_is_not_overwritten_by_a_fresh_run(tmp_path: Path) -> None:
    folder = parsed("--checkpoint", str(tmp_path)).folder("natural")
    assert folder is not None
    folder.mkdir()
    (folder / settings.CHECKPOINT).write_bytes(b"")
    with pytest.raises(SpecError, match="--resume"):
        parsed("--checkpoint", str(tmp_path))
    parsed("--checkpoint", str(tmp_path), "--resume")


def test_references_count_ring_all_reduce() -> None:
    shapes = [(64, 32), (10,)]
    plain = references.estimate("none", shapes, 4)
    assert plain.bytes_per_step == 4 * 2058 * 2 * 3 / 4
    assert references.estimate("fp16-hook", shapes, 4).bytes_per_step == plain.bytes_per_step / 2
    low_rank = references.estimate("powersgd:rank=2", shapes, 4)
    assert low_rank.compressed_elements == 2048
    assert low_rank.bytes_per_step == pytest.approx(4 * (96 * 2 + 10) * 1.5)
    # Rank 16 would send 1536 of 2048 elements: not worth it, says the hook.
    assert references.estimate("powersgd:rank=16", shapes, 4) == references.Estimate(
        plain.bytes_per_step, 0
    )


def run(operator: str, **changed: float | None) -> dict:
    wait, codec = changed.get("wait", 1.0), changed.get("codec", 0.0)
    compute = changed.get("compute", 10.0)
    return {
        "operator": operator,
        "accuracy": changed.get("accuracy", 0.98),
        "loss": changed.get("loss", 0.1),
        "bytes_kind": "measured",
        "bytes_per_step": changed.get("sent", 4e6),
        "ratio": 4e6 / changed.get("sent", 4e6),
        "step_ms": {"total": compute + wait, "compute": compute, "codec": 0.0, "wire": wait},
        "busy_ms": {"codec": codec, "wire": 0.0},
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sent": 1e6, "wait": 4.0}, ("4.0× fewer", "tell apart", "3.0 ms more", "8 Gbit/s")),
        ({"sent": 1e6, "wait": 2.0, "codec": 6.0}, ("below about 4 Gbit/s",)),
        ({"sent": 1e6, "wait": 49.0}, ("500 Mbit/s",)),
        ({"sent": 1e6, "wait": 0.5}, ("0.5 ms less", "any link")),
        ({"sent": 1e6, "wait": 0.5, "compute": 12.0}, ("1.5 ms more", "too noisy")),
        (
            {"sent": 1e6, "wait": 4.0, "compute": 12.0},
            ("8 Gbit/s", "the same work, took 20% longer"),
        ),
        ({"sent": 4.4e6}, ("saved no bytes", "no gain on any link")),
        ({"sent": 1e6, "accuracy": 0.7}, ("but was less accurate (70.0 % vs 98.0 %)",)),
        ({"sent": 1e6, "loss": None}, ("diverged",)),
    ],
)
def test_verdicts_say_what_was_measured(changed: dict, words: tuple[str, ...]) -> None:
    runs = [run("none"), run("natural", **changed)]
    verdict.add_verdicts(runs, test_samples=400)
    for word in words:
        assert word in runs[1]["verdict"]


@pytest.mark.parametrize(
    ("accuracy", "samples", "words"),
    [
        (
            0.97,
            400,
            "bytes at an accuracy that 400 test samples cannot tell apart (97.0 % vs 98.0 %);",
        ),
        (0.98, 10_000, "that 10,000 test samples cannot tell apart (98.0 % vs 98.0 %);"),
        (0.97, 10_000, "bytes but was less accurate (97.0 % vs 98.0 %);"),
        (0.99, 10_000, "bytes and was more accurate (99.0 % vs 98.0 %);"),
    ],
)
def test_chance_is_not_called_the_same_accuracy(accuracy: float, samples: int, words: str) -> None:
    runs = [run("none"), run("natural", sent=1e6, accuracy=accuracy)]
    verdict.add_verdicts(runs, test_samples=samples)
    assert words in runs[1]["verdict"]
    assert "same" not in runs[1]["verdict"]


def test_where_it_gains_is_read_from_the_loopback_if_it_has_run_there() -> None:
    """The verdict and the last lines must not name two rates for one operator."""
    runs = [run("none", wait=500.0), run("natural", sent=1e6, wait=110.0, codec=6.0)]
    loopback = [run("none"), run("natural", sent=1e6, wait=4.0)]
    verdict.add_verdicts(runs, 400, loopback)
    assert "390.0 ms less" in runs[1]["verdict"]  # of the step, on this link
    assert "expect a gain below about 8 Gbit/s" in runs[1]["verdict"]
    assert runs[1]["gain_below_gbit"] == verdict.gain_below(loopback[1], loopback[0])
    verdict.add_verdicts(runs, 400, loopback[:1])  # `auto` does not run there
    assert "expect a gain below about 4 Gbit/s" in runs[1]["verdict"]


def test_without_a_baseline_there_is_no_verdict() -> None:
    runs = [run("natural")]
    verdict.add_verdicts(runs, test_samples=400)
    assert "--operator none" in runs[0]["verdict"]


@pytest.mark.parametrize("spec", ["low-rank", "low-rank:rank=4|sparse-dithering"])
@pytest.mark.parametrize(
    "given",
    [
        ("--downlink", "natural"),
        ("--feedback", "ef14"),
        ("--collective", "star"),
        ("--local-steps", "4"),
        ("--nodes", "2"),
    ],
)
def test_factors_take_no_other_exchange(spec: str, given: tuple[str, str]) -> None:
    assert parsed("--operator", spec).operators == (spec,)
    with pytest.raises(SpecError):
        parsed("--operator", spec, *given)


def test_checkpoints_of_factors_have_a_folder_by_their_canonical_name(tmp_path: Path) -> None:
    chosen = parsed("--operator", "natural", "--checkpoint", str(tmp_path))
    names = [chosen.folder(f"low-rank:rank={rank}|natural:coder=packed") for rank in (8, 4)]
    assert [each.name for each in names if each] == ["low-rank_natural", "low-rank_rank=4_natural"]
