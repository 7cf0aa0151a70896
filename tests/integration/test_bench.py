"""The benchmark measures what it says, checks what it measures, and asserts no speed."""

import json
import subprocess
import sys

import pytest

import fewbits
from fewbits.backend.kernel import Written
from fewbits.bench import codec, dtypes, jobs, small
from fewbits.bench.timing import LEAST_ROUNDS, Plan, TimedJob, measured
from fewbits.core.operator import Operator, Parts
from fewbits.core.vector import Vector
from fewbits.errors import FewbitsError
from fewbits.operators.natural import Natural
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

ELEMENTS = 600_000  # enough for two threads to have a slice each
ROW_KEYS = {
    "name", "threads", "seconds_median", "seconds_best", "cpu_median", "memcpy_ratio_median",
    "memcpy_ratio_best", "fp16_ratio_median", "gigabytes_per_second",
}  # fmt: skip


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fewbits.cli", "bench", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_json_has_the_stable_keys_and_positive_ratios() -> None:
    done = bench("--quick", "--json", "--elements", "6e5", "--repeats", 3, "--threads", 1, 2)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {"machine", "elements", "rows", "scaling", "sizes"} <= report.keys()
    assert {"cpu", "cores", "simd", "python", "numpy", "torch"} <= report["machine"].keys()
    assert report["elements"] == ELEMENTS
    for row in report["rows"]:
        assert row.keys() == ROW_KEYS
        assert all(value > 0 for key, value in row.items() if key != "name" and value is not None)
        assert row["seconds_best"] <= row["seconds_median"]
    expected = {
        (jobs.MEMCPY, 1), (jobs.ENCODE, 1), (jobs.DECODE, 1), (jobs.ACCUMULATE, 1),
        (jobs.CHECKSUM, 1), (jobs.MEMCPY, 2), (jobs.ENCODE, 2),
        ("compress(out) natural", 2), ("decompress(out) natural", 2),
        ("compress(new) natural", 1), ("decompress(new) natural", 1),
        *((f"compress(out) {name}", 1) for name in fewbits.registry.catalogue().by_name),
        *((f"decompress(out) {name}", 1) for name in fewbits.registry.catalogue().by_name),
        *((f"compress(out) {name}|natural", 1) for name in fewbits.registry.catalogue().stages),
        ("compress(out) natural:coder=rans", 1), ("decompress(out) natural:coder=rans", 1),
    }  # fmt: skip
    rows = {(row["name"], row["threads"]): row for row in report["rows"]}
    assert expected <= rows.keys()
    assert rows[jobs.MEMCPY, 1]["memcpy_ratio_median"] == 1
    for own in report["scaling"]:
        assert own["quotient"] == pytest.approx(own["speedup"] / own["memcpy_speedup"])
    sizes = {own["spec"]: own for own in report["sizes"]}
    assert sizes["natural"]["frame_bytes"] == ELEMENTS * 9 // 8 + sizes["natural"]["overhead_bytes"]
    assert sizes["identity"]["bits_per_value"] > 32


def test_all_dtypes_have_a_row_of_each_operator() -> None:
    arguments = "--all-dtypes", "--elements", "6e5", "--repeats", 1, "--threads", 1, 2
    specs = "natural", "top-k:fraction=0.01|natural"
    done = bench(*arguments, "--json", "--operators", *specs)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["elements"], report["threads"]) == (ELEMENTS, 2)
    found = [(row["spec"], row["dtype"]) for row in report["rows"]]
    assert found == [(spec, own.name) for spec in specs for own in dtypes.DTYPES]
    for row in report["rows"]:
        for direction in ("compress", "decompress"):
            assert row[direction].keys() == {
                "memcpy_ratio", "cpu_median", "seconds_median", "speedup",
            }  # fmt: skip
            assert all(value > 0 for value in row[direction].values())
    bits = {row["dtype"]: round(row["bits_per_value"]) for row in report["rows"][:4]}
    assert bits == {"float32": 9, "bfloat16": 9, "float16": 6, "float64": 12}
    calls = [(row["spec"], row["elements"]) for row in report["small"]]
    assert calls == [(spec, size) for size in (1000, 10_000) for spec in small.SMALL_SPECS]
    assert [row["spec"] for row in report["many"]] == list(small.SMALL_SPECS)
    assert all(value > 0 for row in report["small"] + report["many"]
               for value in row.values() if not isinstance(value, str))  # fmt: skip


def test_the_table_of_dtypes_explains_itself() -> None:
    done = bench("--all-dtypes", "--elements", 1000, "--repeats", 1, "--threads", 1,
                 "--operators", "sign")  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in ("compress x memcpy", "bfloat16", "us a call", "torch's cast", "us a tensor"):
        assert words in done.stdout


def test_a_dtype_that_comes_back_wrong_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(own: Operator, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        out.bits[:] = 0
        return Tally()

    monkeypatch.setattr(Natural, "decode", zeros)
    with pytest.raises(FewbitsError, match="wrong result"):
        dtypes.run(20_000, [fewbits.operator("natural")], 1, Plan(rounds=1))


def test_the_table_explains_itself() -> None:
    done = bench("--elements", 1000, "--repeats", 3, "--threads", 1, "--operators", "natural")
    assert done.returncode == 0, done.stderr
    assert "natural encodes at" in done.stdout
    assert "higher is faster" in done.stdout
    assert "bfloat16" not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--elements", "0"),
        ("--elements", "1.5"),
        ("--elements", "many"),
        ("--elements", "nan"),
        ("--elements", "1e300"),
        ("--threads", "0"),
        ("--operators", "unnatural"),
    ],
    ids=str,
)
def test_a_bad_option_is_one_line(arguments: tuple[str, ...]) -> None:
    done = bench(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fewbits: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("elements", [1, 2, 9, 1000])
def test_small_vectors_are_measured_too(elements: int) -> None:
    report = codec.run(elements, codec.default_operators(), [1], Plan(rounds=1))
    assert all(row.memcpy_ratio_median > 0 for row in report.rows)


def test_a_wrong_result_is_an_error_not_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(own: Operator, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        out.bits[:] = 0
        return Tally()

    monkeypatch.setattr(Natural, "decode", zeros)
    with pytest.raises(FewbitsError, match="wrong result"):
        codec.run(20_000, [fewbits.operator("natural")], [1], Plan(rounds=1))


def test_an_encoder_that_forgets_a_value_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(own: Operator, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        written = Operator.encode(own, x, rng, into, threads=threads)
        into[0][17] ^= 1
        return written

    monkeypatch.setattr(Natural, "encode", forgetful)
    with pytest.raises(FewbitsError, match="wrong result"):
        codec.run(20_000, [fewbits.operator("natural")], [1], Plan(rounds=1))


def test_candidates_take_turns_in_both_directions() -> None:
    order: list[str] = []
    checked: list[str] = []
    candidates = [
        TimedJob(
            name, 1, lambda name=name: order.append(name), lambda name=name: checked.append(name)
        )
        for name in "abc"
    ]
    samples = measured(candidates, Plan(rounds=4), lambda part: None)
    assert "".join(order) == "abc" + "abccba" * 2
    assert "".join(checked) == "abcabc"
    assert all(own.wall.size == own.cpu.size == 4 for own in samples)
    assert all((own.wall > 0).all() and (own.cpu > 0).all() for own in samples)


def test_time_limits_end_the_rounds_early() -> None:
    candidate = TimedJob("nothing", 1, lambda: None, lambda: None)
    (samples,) = measured([candidate], Plan(rounds=1000, seconds=0.0), lambda part: None)
    assert samples.wall.size == LEAST_ROUNDS


def test_torch_keeps_its_number_of_threads() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    with jobs.one_torch_thread(torch):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
