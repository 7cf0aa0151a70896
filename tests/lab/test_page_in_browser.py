"""The laboratory report in a real browser: wide and narrow, light and dark, and on paper."""

import fcntl
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import browser as pages
from fewbits_lab.cli import main
from fewbits_lab.results import paths

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("nc-table1", "nc-table5", "nc-table7", "oc-lower-bounds", "comparison")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with pages.chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of quick experiments and all recorded results; processes that test share it."""
    shared = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if shared else base) / "page-of-all-results"
    with Path(f"{place}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            _build(place, tmp_path_factory.mktemp("given"))
            (place / "complete").touch()
    return place / "index.html"


def _build(out: Path, given: Path) -> None:
    for name, path in paths().items():
        (given / f"{name}.json").write_bytes(path.read_bytes())
    words = ["run", *QUICK, "--quick", "--out", str(out), "--recorded", str(given)]
    assert main(words) == 0


# A width has the same faults in both schemes, a scheme at both widths: the gate has each once.
GATE = ((1280, "light"), (390, "dark"))
WINDOWS = [
    pytest.param(*own, marks=[] if own in GATE else [pytest.mark.soak])
    for own in product(pages.WIDTHS, pages.SCHEMES)
]


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_every_figure_loads_and_nothing_overflows(
    chromium: Any, report: Path, width: int, scheme: str
) -> None:
    with pages.opened(chromium, report, width, scheme) as (page, heard):
        page.evaluate("document.querySelectorAll('details').forEach(own => own.open = true)")
        assert pages.faults(page, heard) == []
        assert page.locator("img").count() > len(QUICK)
        assert page.locator("section").count() >= 12
        # Letters of figures stay legible: they are not drawn smaller than 3/4 of their size.
        shrunk = "[...document.images].filter(i => i.clientWidth < .75 * i.naturalWidth)"
        small = page.evaluate(f"{shrunk}.map(i => i.alt)")
        assert small == []


def test_figures_and_text_are_light_or_dark(chromium: Any, report: Path) -> None:
    found = {}
    for scheme in pages.SCHEMES:
        with pages.opened(chromium, report, 1280, scheme) as (page, _):
            found[scheme] = (
                pages.background(page, "figure img"),
                page.evaluate("getComputedStyle(document.body).backgroundColor"),
            )
    assert found["light"][0] > 240
    assert found["dark"][0] < 40
    assert found["light"][1] != found["dark"][1]


def test_every_file_that_the_page_names_is_beside_it(chromium: Any, report: Path) -> None:
    with pages.opened(chromium, report, 1280, "light") as (page, _):
        links = page.evaluate("[...document.links].map(own => own.getAttribute('href'))")
        names = page.evaluate("[...document.querySelectorAll('[id]')].map(own => own.id)")
    inside = [link[1:] for link in links if link.startswith("#")]
    assert set(inside) <= set(names)
    assert len(set(names)) == len(names)
    outside = [link for link in links if not link.startswith("#")]
    assert len(outside) > 3 * len(QUICK)
    assert [link for link in outside if not (report.parent / link).is_file()] == []


def test_it_prints(chromium: Any, report: Path) -> None:
    with pages.opened(chromium, report, 1280, "dark") as (page, _):
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        assert page.pdf(format="A4").startswith(b"%PDF")


BAD = {
    "broken image: lost": '<img alt="lost" src="data:image/png;base64,AAAA">',
    "broken image: absent": '<img alt="absent" src="absent.svg">',
    "external request: http://127.0.0.1:9/x.css": (
        '<link rel="stylesheet" href="http://127.0.0.1:9/x.css">'
    ),
    "wider than the window by": '<div style="width:3000px">wide</div>',
    "console error: oh": "<script>console.error('oh')</script>",
    "error: boom": "<script>throw new Error('boom')</script>",
    "contrast": '<p style="color:#bbb;background:#fff">faint</p>',
}


@pytest.mark.parametrize(("expected", "content"), BAD.items(), ids=list(BAD))
def test_the_checker_finds_what_is_wrong(
    chromium: Any, tmp_path: Path, expected: str, content: str
) -> None:
    path = tmp_path / "bad.html"
    path.write_text(f"<!doctype html><title>bad</title><body><p>text</p>{content}</body>")
    with pages.opened(chromium, path, 390, "light") as (page, heard):
        found = pages.faults(page, heard)
    assert any(fault.startswith(expected) for fault in found), found


def test_the_checker_has_nothing_against_a_good_page(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "good.html"
    path.write_text("<!doctype html><title>good</title><body><p>text</p></body>")
    with pages.opened(chromium, path, 390, "light") as (page, heard):
        assert pages.faults(page, heard) == []
