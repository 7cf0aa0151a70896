"""`fewbits verify` under the interpreter: green as it is, red with a fault in a kernel."""

import json
import sys

import numpy as np
import pytest

from fewbits import backend
from fewbits.backend.device.kernels import natural as kernels
from fewbits.backend.device.language import tl, triton
from fewbits.cli import main, verify
from fewbits.errors import MissingExtraError
from fewbits.verify import cases, checksums, damage, document, page, ranks
from fewbits.verify.places import DevicePlaces
from fewbits.verify.vectors import VECTOR_KINDS

CASE = cases.Case("natural", "float32", (4097, 9), "brink")
HELD = {"held": True, "ranks": 2, "steps": 3, "specs": ["natural"], "differences": []}


@triton.jit
def off_by_one_bit(low, key_0, key_1):
    x = low * 0x9E3779B1 + key_0
    x = (x ^ (x >> 16)) * 0x7FEB352D + key_1
    x = (x ^ (x >> 15)) * 0x846CA68B
    return (x ^ (x >> 16)) ^ tl.full((), 1 << 9, tl.uint32)  # the lowest bit that a draw has


@pytest.fixture
def quick(monkeypatch):
    """One operator, few vectors, no processes."""
    monkeypatch.setattr(cases, "VERIFIED_SPECS", ("natural",))
    monkeypatch.setattr(cases, "INTERPRETED_LENGTHS", ((9,), (4097, 9), (31,), (1,)))
    monkeypatch.setattr(damage, "_FLIPS", 3)
    monkeypatch.setattr(checksums, "CHECKSUM_SIZES", (0, 5, 4097))
    monkeypatch.setattr(ranks, "compared", lambda device, count: HELD)


def test_a_case_holds_in_all_directions():
    count, difference = cases.compared(CASE, DevicePlaces("interpreted"))
    assert difference is None
    assert count >= 4


def test_a_fault_in_the_lowest_bit_of_a_draw_is_named(monkeypatch):
    monkeypatch.setattr(kernels, "words", off_by_one_bit)
    _, difference = cases.compared(CASE, DevicePlaces("interpreted"))
    assert difference is not None
    assert difference.kernel == "natural float32 encode"
    assert difference.what == "payload byte"
    assert difference.cpu_bits != difference.device_bits


def test_the_command_is_green_and_says_that_there_was_no_device(quick, capsys, tmp_path):
    out = tmp_path / "report.html"
    assert main(["verify", "--device", "cpu", "--report", str(out)]) == 0
    told = capsys.readouterr().out
    assert "no device" in told
    assert "everything held" in told
    found = json.loads(out.with_suffix(".json").read_text())
    assert found["held"]
    assert found["vectors"]["runs"] > 4
    left_out = len(list(cases.every_case(thorough=True))) - found["vectors"]["cases"]
    assert found["vectors"]["left_out"] == left_out > 0
    assert f"--thorough runs {left_out} more" in told
    assert not found["device"]["is_device"]
    assert "speeds" not in found
    assert "fewbits verify" in out.read_text()


def test_the_command_is_red_with_a_fault_in_a_kernel(quick, monkeypatch, capsys):
    monkeypatch.setattr(kernels, "words", off_by_one_bit)
    assert main(["verify", "--device", "cpu", "--json"]) == 1
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert not found["held"]
    first = found["vectors"]["differences"][0]
    assert "natural float32 encode: payload byte" in first
    assert "0x" in first
    assert "natural float32 encode" in told.err


def test_a_part_that_fails_is_told_and_the_others_run(quick, monkeypatch):
    def fails(places):
        raise RuntimeError("launch failure")

    monkeypatch.setattr(damage, "injected", fails)
    monkeypatch.setattr(cases, "every_case", lambda **_: [CASE])
    found = document.verified("interpreted", 2)
    assert not found["held"]
    assert found["vectors"]["held"]
    assert "launch failure" in page.render(found)


def test_too_few_devices_for_the_ranks_is_told_and_the_rest_counts(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    reasons = document.not_run("cuda:0", 2)
    assert reasons == {"ranks": "NCCL wants a device for each of 2 ranks, and here is 1"}
    assert document.not_run("cuda:0", 1) == {}
    found = {"device": {"name": "one"}, "held": True, "not_run": reasons}
    assert ("ranks against ranks on the CPU", "not run", reasons["ranks"]) in page.text(found)
    assert page.verdict(found).startswith("one: everything that was run held")


def test_the_bar_ends_when_all_parts_have(quick, monkeypatch):
    amounts = []
    monkeypatch.setattr(cases, "every_case", lambda **_: [CASE, CASE])
    monkeypatch.setattr(cases, "compared", lambda case, places: (1, None))
    monkeypatch.setattr(checksums, "compared", lambda places: HELD)
    monkeypatch.setattr(damage, "injected", lambda places: HELD)
    document.verified("interpreted", 2, advance=amounts.append)
    assert sum(amounts) == document.steps("interpreted", 2, thorough=False)


def test_what_an_error_says_of_the_machine_is_not_shared(monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "secret-host")

    def fails():
        raise RuntimeError("in /home/someone/env/a.py:3:\n secret-host has no /dev/kfd, 3/4 done")

    (text,) = document._tried(fails)["differences"]
    assert text == "RuntimeError: in a.py:3: HOST has no kfd, 3/4 done"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--device", "cuda"], "no CUDA or ROCm device"),
        (["--ranks", "1"], "at least 2"),
        (["--report", "out.txt"], ".html"),
    ],
)
def test_bad_input_is_one_line(words, says, capsys):
    assert main(["verify", *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_what_is_not_installed_is_named(missing, monkeypatch, capsys):
    monkeypatch.setattr(verify, "find_spec", lambda name: None if name == missing else name)
    assert main(["verify"]) == 2
    told = capsys.readouterr().err
    assert f"fewbits verify needs {missing}" in told
    assert "pip install" in told
    assert told.count("\n") == 1


def test_memory_of_a_device_without_triton_is_refused_in_one_line(monkeypatch):
    for name in list(sys.modules):
        if name.startswith("fewbits.backend.device"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("fewbits.backend.device")
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(MissingExtraError, match=r"'cuda:0' needs triton, which torch's builds"):
        backend.at("cuda:0")


def test_parameters_that_differ_are_named():
    one = np.zeros((3, 5), np.uint32)
    other = one.copy()
    other[1, 4] = 0x3F800000
    assert ranks.difference("natural", one, one) == []
    (text,) = ranks.difference("natural", other, one)
    assert "parameter 4 is 0x3f800000 after step 1" in text


def test_every_kind_of_vector_is_run_by_a_thorough_pass():
    found = list(cases.every_case(thorough=True))
    assert {own.kind for own in found} == set(VECTOR_KINDS)
    assert {own.shift for own in found if own.spec == "natural"} == {0, 1}
    assert len(found) > 3 * len(list(cases.every_case(thorough=False)))
