"""The documents tell the truth: their code runs, their frame and numbers are the library's."""

import doctest
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fewbits

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/quickstart.md", "docs/methods.md")
FORMAT = (ROOT / "docs" / "format.md").read_text()
EXAMPLE = np.float32([[1.0, -2.5, 0.0], [0.1, 3.0, -8.0]])


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def numbers(block: str) -> list[float]:
    return [float(number) for number in block.split()]


def example_chapter() -> str:
    return FORMAT.split("## 10. ")[1].split("## 11. ")[0]


@pytest.mark.parametrize("page", PAGES)
def test_every_python_block_of_a_page_runs(page: str) -> None:
    code = blocks((ROOT / page).read_text(), "python")
    assert code
    namespace: dict[str, object] = {}
    for block in code:
        exec(compile(block, page, "exec"), namespace)


def test_the_quickstart_shows_what_its_first_block_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text()
    code, shown = blocks(page, "python")[0], page.split("```text\n")
    exec(compile(code, "quickstart.md", "exec"), {})
    printed = capsys.readouterr().out
    assert any(own.startswith(f"{printed}```") for own in shown)
    assert (ROOT / "examples" / "vector_to_bytes.py").read_text().endswith(code)


def test_the_frame_in_the_format_document_is_what_the_library_writes() -> None:
    given, shown, decoded = blocks(example_chapter(), "text")
    frame = bytes.fromhex(shown)
    assert numbers(given) == pytest.approx(EXAMPLE.ravel().tolist())
    assert fewbits.compress(EXAMPLE, "natural", seed=7) == frame
    assert f"this frame of {len(frame)} bytes" in example_chapter()
    assert numbers(decoded) == fewbits.decompress(frame).ravel().tolist()


def test_the_explanation_of_the_frame_covers_every_byte_in_order() -> None:
    frame = bytes.fromhex(blocks(example_chapter(), "text")[1])
    rows = re.findall(r"^\| `([0-9a-f ]+)` \|", example_chapter(), re.MULTILINE)
    assert bytes.fromhex("".join(rows)) == frame


def test_the_stage_of_the_other_rounding_is_what_the_library_writes() -> None:
    (stage,) = re.findall(r"^`([0-9a-f ]+)`: one parameter", example_chapter(), re.MULTILINE)
    assert bytes.fromhex(stage) in fewbits.compress(EXAMPLE, "natural:rounding=nearest")


def test_the_overheads_in_the_format_document_are_measured() -> None:
    found = re.search(
        r"has (\d+) bytes.*?255 values, (\d+) up to 65,535 values and (\d+)", FORMAT, re.DOTALL
    )
    assert found is not None
    for count, overhead in zip((255, 65_535, 65_536), found.groups(), strict=True):
        frame = fewbits.compress(np.ones(count, np.float32), "natural")
        assert fewbits.inspect(frame).overhead == int(overhead)


def test_the_key_and_the_random_words_in_the_format_document_are_the_librarys() -> None:
    found = re.search(
        r"gives the key `([0-9a-f ]+)`, and its stream begins `([0-9a-f\s]+)`", FORMAT
    )
    assert found is not None
    stream = fewbits.Rng.from_seed(7).fork(0)
    words = [int(word, 16) for word in found[2].split()]
    assert stream.key == bytes.fromhex(found[1])
    assert stream.words(0, len(words)).tolist() == words


def test_a_fresh_measurement_agrees_with_the_recorded_one() -> None:
    (result,) = ROOT.glob("lab/src/*/studies/bits_error/result.json")
    rows = json.loads(result.read_text())["rows"]
    x = np.random.default_rng(7).standard_normal(1_000_000, dtype=np.float32)
    for row in [row for row in rows if row["kind"] == "operator"]:
        assert row["d"] == x.size
        frame = fewbits.compress(x, row["operator"], seed=7)
        difference = fewbits.decompress(frame).astype(np.float64) - x
        error = np.sum(difference**2) / np.sum(x.astype(np.float64) ** 2)
        assert len(frame) == row["frame_bytes"]
        # Equal bits in, equal bits out; only the order of the two sums may differ by machine.
        assert error == pytest.approx(row["relative_squared_error"], rel=1e-9)


def test_the_bits_on_the_page_on_theory_are_the_computed_ones() -> None:
    information = pytest.importorskip("fewbits_lab.information")
    page = (ROOT / "docs" / "theory.md").read_text()
    rows = re.findall(r"^\| (0\.\d+) \|((?:[^|\n]*\|){5}[^|\n]*)\|$", page, re.MULTILINE)
    assert len(rows) == 5
    for alpha, rest in rows:
        shown = [cell.strip() for cell in rest.split("|")]
        for d, text in zip((8, 16, 100, 1000, 10**6, 10**8), shown, strict=True):
            digits = len(text.partition(".")[2])
            assert f"{information.average_bits(float(alpha), d):.{digits}f}" == text


EXAMPLES = ("", "codec", "feedback.method", "many", "methods", "registry", "rng")


@pytest.mark.parametrize("module", [f"fewbits.{name}".rstrip(".") for name in EXAMPLES])
def test_the_examples_in_docstrings_are_true(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_example_of_an_adapter_is_true() -> None:
    """In a process of its own: it makes a process group."""
    pytest.importorskip("torch")
    words = "import doctest, sys, fewbits.ddp as own; sys.exit(doctest.testmod(own).failed)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_public_name_is_in_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    api_pages = importlib.import_module("api_pages")
    for name in api_pages.MODULES:
        if name != "fewbits":
            needed = {"fewbits.flower": "flwr", "fewbits.huggingface": "transformers"}
            pytest.importorskip(needed.get(name, "torch"))
        page, module = api_pages.page(name), importlib.import_module(name)
        headings = re.findall(r"^## (\w+)$", page, re.MULTILINE)
        assert sorted(headings) == sorted(module.__all__)
        assert page.count(">>> ") == page.count("\n>>> "), "an example is indented"


def test_every_page_is_reached_from_the_first_and_titles_differ() -> None:
    pages = {path.stem: path.read_text() for path in (ROOT / "docs").glob("*.md")}
    linked = set(re.findall(r"^([\w-]+)$", pages["index"], re.MULTILINE))
    assert pages.keys() - {"index"} == linked
    for name in linked:
        links = f"({name}.md)", f"(../{name.upper()}.md)"  # a file that its page includes
        assert any(link in pages["index"] for link in links), f"{name} is in the sidebar only"
    titles = [re.search(r"^# (.+)$", text, re.MULTILINE) for text in pages.values()]
    named = [found[1] for found in titles if found]
    assert len(set(named)) == len(named)
