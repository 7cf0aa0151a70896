"""The page shows the numbers of its result file, and nothing from elsewhere."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fewbits import report
from fewbits.cli import main
from fewbits.errors import SpecError
from fewbits.report import scatter


def result(operator: str, **changed: object) -> dict:
    points = [
        {"step": s, "loss": 2.0 / s, "bytes": 1e6 * s, "seconds": 0.5 * s} for s in range(1, 9)
    ]
    return {
        "operator": operator,
        "accuracy": 0.9731,
        "loss": 0.1234,
        "bytes_kind": "measured",
        "bytes_per_step": 392_518.0,
        "ratio": 3.46,
        "step_ms": {"total": 12.3, "compute": 8.1, "codec": 1.4, "wire": 2.8},
        "compressed_share": 0.989,
        "curve": points,
        "warnings": [],
        "verdict": f"{operator} did well",
    } | changed


def document(*runs: dict) -> dict:
    return {
        "format": "fewbits-train",
        "version": 1,
        "command": "fewbits train --operator natural --seed 41",
        "settings": {"model": "cnn", "workers": 2, "epochs": 3, "batch_size": 64, "seed": 41},
        "data": "digits",
        "parameters": 339_466,
        "versions": {"python": "3.11.4", "torch": "2.13.0"},
        "machine": {"system": "Linux", "architecture": "x86_64", "processors": 2},
        "runs": list(runs),
    }


class Balanced(HTMLParser):
    """Fails on a tag that is closed out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        pass

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag


def test_the_page_holds_the_numbers_of_the_file(tmp_path: Path) -> None:
    given = document(result("none", bytes_kind="estimated"), result("natural"))
    (tmp_path / "out.json").write_text(json.dumps(given))
    assert main(["report", str(tmp_path / "out.json"), str(tmp_path / "out.html")]) == 0
    page = (tmp_path / "out.html").read_text()
    for text in ("97.3 %", "0.1234", ">0.393<", "~0.393", ">3.46<", "12.3", "8.1", "1.4", "2.8",
                 "98.9 %", "natural did well", "--seed 41", "339,466", "torch 2.13.0"):  # fmt: skip
        assert text in page, text
    assert page.count("<polyline") == 6
    assert page.count('<rect class="codec"') == 3  # two bars and the legend
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []


def test_the_gain_comes_first_and_the_ratio_is_the_first_column() -> None:
    slow = {"total": 49.2, "compute": 8.1, "codec": 0.0, "wire": 41.1}
    given = document(
        result("none", step_ms=slow, accuracy=0.9701, ratio=1.0), result("natural:coder=rans")
    )
    given |= {"test_samples": 360, "summary": ["It gains."], "loopback": [result("none")]}
    page = report.render(given)
    first, second = page.index('<ul class="gain">'), page.index("<table>")
    assert first < page.index("It gains.") < second
    tiles = re.findall(r"<li><b>([^<]+)</b> ([^<]+)</li>", page)[:3]
    assert tiles[0] == ("4.0×", "as fast a step as plain DDP")
    assert tiles[1] == ("3.5×", "fewer bytes")
    assert re.fullmatch(r"\+0\.3 ± \d\.\d", tiles[2][0])
    titles = re.findall(r"<th[^>]*>([^<]+)</th>", page[second:])
    assert titles[:3] == ["operator", "× fewer bytes", "× speed"]
    assert page.count("<table>") == 2  # the loopback's is the second
    assert 'class="gain"' not in report.render(document(result("natural")))


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = report.render(document(result("natural")))
    assert not re.search(r"https?:|//|src=|href=|url\(|@import|<script", page)


def test_bars_are_as_long_as_their_times() -> None:
    page = report.render(document(result("natural")))
    widths = re.findall(r'<rect class="(\w+)" x="[\d.]+" y="[\d.]+" width="([\d.]+)"', page)
    lengths = {name: float(width) for name, width in widths}
    assert lengths["compute"] / lengths["wire"] == pytest.approx(8.1 / 2.8, rel=0.01)
    assert lengths["codec"] / lengths["wire"] == pytest.approx(1.4 / 2.8, rel=0.01)


def test_a_diverged_run_stays_in_the_table() -> None:
    nothing = [{"step": 1, "loss": None, "bytes": 1.0, "seconds": 1.0}]
    page = report.render(document(result("natural", loss=None, curve=nothing)))
    assert "diverged" in page
    assert "Nothing to draw" in page


def test_a_run_that_sends_nothing_is_drawn() -> None:
    still = [{"step": 1, "loss": 1.0, "bytes": 0.0, "seconds": 0.1}]
    page = report.render(document(result("none", curve=still, bytes_per_step=0.0)))
    assert page.count("<polyline") == 3


def test_names_cannot_inject_markup() -> None:
    page = report.render(document(result("<b>&", verdict="<i>", warnings=["<u>"])))
    assert "<b>&" not in page.replace("<b>&lt;", "")
    assert "<i>" not in page
    assert "<u>" not in page


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', '{"format": "fewbits-train"}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"other\.json"):
        report.read(path)


def test_bad_input_gives_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "absent.json"), str(tmp_path / "out.html")]) == 2
    assert main(["report"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_a_result_without_all_its_parts_gives_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one that somebody has shortened: no traceback and no half of a page."""
    whole, numbers = document(result("natural")), tmp_path / "short.json"
    del whole["runs"][0]["curve"]
    numbers.write_text(json.dumps(whole))
    page = tmp_path / "out.html"
    assert main(["report", str(numbers), str(page)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no whole result of fewbits train: it has no 'curve'" in said
    assert not page.exists()


def test_the_figure_of_bounds_places_marks_above_the_curve_and_keeps_names_inside() -> None:
    marks = [
        scatter.Mark("few|<bits>", 1 / 64, 0.99, True),
        scatter.Mark("many", 9.0, 0.08, True),
        scatter.Mark("biased", 2.0, 0.07, False),
    ]
    text = scatter.bits_against_error(marks)
    root = ElementTree.fromstring(text)
    assert "few|&lt;bits&gt;" in text
    width = float(root.attrib["viewBox"].split()[2])
    height = float(root.attrib["viewBox"].split()[3])
    circles = list(root.iter("{http://www.w3.org/2000/svg}circle"))
    assert all(0 < float(own.attrib["cx"]) < width for own in circles)
    assert all(0 < float(own.attrib["cy"]) < height for own in circles)
    lines = root.iter("{http://www.w3.org/2000/svg}polyline")
    (curve,) = (own.attrib["points"] for own in lines if own.attrib["class"] == "bound")
    points = [tuple(map(float, pair.split(","))) for pair in curve.split()]
    for (x, y), (next_x, next_y) in pairwise(points):  # the error falls as bits grow
        assert next_x > x
        assert next_y >= y
    # Dots of operators lie on the free side of the curve, on which y is larger.
    for mark, dot in zip(sorted(marks, key=lambda m: -m.error), circles[2::2], strict=True):
        beyond = [y for x, y in points if x >= float(dot.attrib["cx"])]
        assert not beyond or float(dot.attrib["cy"]) <= beyond[0] + 1, mark
    assert scatter.bits_against_error([]).startswith("<svg")
