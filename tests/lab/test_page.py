"""The page: one file, every section, every claim; losses are marked, what is missing is named."""

import argparse
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fewbits.bench import dtypes
from fewbits_lab import figures, record, store
from fewbits_lab.experiment import Claim, Experiment, StudySettings, silent
from fewbits_lab.index import EXPERIMENTS, RECORDED, find
from fewbits_lab.page import exhibits
from fewbits_lab.page import render as page
from fewbits_lab.page.claims import verdict
from fewbits_lab.printed import Comparison
from fewbits_lab.results import paths, results
from fewbits_lab.sections import SECTIONS
from fewbits_lab.tables import ShownTable, as_html, markdown

FULL = [own.name for own in EXPERIMENTS if own.name in paths()]
SVG = "{http://www.w3.org/2000/svg}"
full_runs = pytest.mark.parametrize("name", FULL)
recorded = pytest.mark.parametrize("own", RECORDED, ids=lambda own: own.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Comparison):
    operator: str
    size: float | None


def draw(rows: Sequence[Row]):
    drawn, (plot,) = figures.panels("trial")
    plot.plot([row.ours for row in rows], color=figures.BLUE)
    return drawn


def claims(rows: Sequence[Row]) -> list[Claim]:
    return [
        Claim("natural", "Table 9", "holds <here>", "1", "1", agrees=True),
        Claim("optimal", "Section 4", "fails", "2", "3", agrees=False, why="another `unit`"),
        Claim("optimal", "5", "waits", "5", "not run", agrees=None, why="not run: no ImageNet"),
        Claim("natural", "Table 8", "follows", "7", "7", agrees=True, by_formula=True),
        Claim("optimal", "Section 6", "is open", "6", "5 ± 2", agrees=None, why="too few seeds"),
    ]


def result(name: str) -> store.StudyResult:
    wrong = Row(printed="2.0", ours=3.25, reproduces=False, reason="a <slip> &c",
                operator="one, two", size=None)  # fmt: skip
    rows = [wrong, replace(wrong, ours=2.0, reproduces=True, reason="", size=1e-3)]
    own = Experiment(
        name, "A <trial>", "About & so on", Row, lambda *_: rows, draw,
        lambda rows: [f"{len(rows)} rows < 3"], claims,
    )  # fmt: skip
    return store.StudyResult(own, StudySettings(), rows, {})


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self.names += [value or "" for name, value in attrs if name == "id"]


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def rendered(*names: str) -> str:
    results = [result(name) for name in names]
    return page.render([exhibits.of_result(own) for own in results], results)


def test_the_page_is_one_file_and_lists_departures() -> None:
    text = rendered("a", "b")
    reader = read(text)
    beside = {f"{name}.{kind}" for name in "ab" for kind in ("csv", "json", "svg")}
    for link in reader.links:
        assert link.startswith(("data:image/svg+xml,", "#")) or link in beside, link
    assert beside < set(reader.links)
    assert {link[1:] for link in reader.links if link.startswith("#")} <= set(reader.names)
    assert "script" not in reader.tags
    assert reader.tags.count("img") == 2
    assert "A &lt;trial&gt;" in text
    assert text.count("<li>2 rows &lt; 3</li>") == 2
    departures = text.split("What does not reproduce")[1].split("</table>")[0]
    assert departures.count("a &lt;slip&gt; &amp;c") == 2
    assert "one, two" in departures
    assert text == rendered("a", "b")


def test_no_two_parts_of_the_page_have_one_name() -> None:
    names = read(rendered(*(section.name for section in SECTIONS), "repeat")).names
    assert len(names) >= 2 * len(SECTIONS)
    assert len(set(names)) == len(names)


def test_what_is_in_no_section_is_shown_after_the_last_one() -> None:
    expected = ["section-papers", "nc-table1", "section-more", "a"]
    reader = read(rendered("a", "nc-table1"))
    order = [name for name in reader.names if name in set(expected)]
    assert order == expected
    assert "section-more" not in read(rendered("nc-table1")).names


def test_claims_are_all_in_one_table_with_their_verdicts() -> None:
    text = rendered("a").split('id="section-claims"')[1].split("</section>")[0]
    assert text.count("<tr") == 6
    for cell in ("Natural compression, Table 9", "holds &lt;here&gt;", ">agrees<",
                 ">agrees, by formula<",
                 "<b>does not agree</b>: another <code>unit</code>", "<b>not run</b>: no ImageNet",
                 "<b>not decided</b>: too few seeds",
                 '<a href="#a">a</a>'):  # fmt: skip
        assert cell in text, cell
    assert text.count('<tr class="lost">') == 1
    assert text.count("not run") == 1


def test_the_page_says_in_short_what_was_claimed_and_found() -> None:
    text = rendered("a").split("<nav>")[0]
    assert "<dt>Claimed</dt>" in text
    assert (
        "1 of 1 claims of <b>Natural compression</b> and 0 of 1 claims of "
        "<b>Optimal compression</b> that were tried here hold"
    ) in text


def test_what_follows_from_formulas_is_not_counted() -> None:
    assert "<b>1 of 2</b> claims of the papers" in rendered("a")
    for name in ("nc-table1", "nc-table5", "nc-table8", "oc-upper-bounds"):
        own = find(name)
        found = own.claims(own.compute(StudySettings(quick=True), silent))
        assert found, name
        assert all(claim.by_formula for claim in found), name


@full_runs
def test_no_verdict_says_a_word_twice(name: str) -> None:
    found = store.read(find(name), paths()[name])
    assert found is not None
    for claim in found.experiment.claims(found.rows):
        said = verdict(claim)
        assert said.count("not run") + said.count("decided") <= 1, said


def test_sections_name_what_there_is_once() -> None:
    known = {own.name for own in EXPERIMENTS} | {own.name for own in RECORDED}
    assert len(known) == len(EXPERIMENTS) + len(RECORDED)
    named = [name for section in SECTIONS for name in section.items]
    assert len(set(named)) == len(named)
    assert set(named) <= known
    assert {own.name for own in RECORDED} <= set(named)


def test_sections_stand_in_the_order_of_the_report() -> None:
    assert [section.name for section in SECTIONS] == [
        "links", "accuracy", "one-figure", "speed", "federated", "in-network", "gradients", "peers",
        "when-not", "claims", "papers",
    ]  # fmt: skip


def check_claims(found: Sequence[Claim]) -> None:
    for claim in found:
        assert claim.paper in {"natural", "optimal"}, claim
        assert claim.agrees or claim.why, f"no reason is given for {claim}"


@recorded
def test_what_is_recorded_is_shown(own: record.Recorded) -> None:
    document = results(own.result)
    shown = exhibits.of_recorded(own, document)
    assert shown.tables
    for table in shown.tables:
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert all(number < len(table.rows) for number in table.lost)
    check_claims(shown.claims)
    root = ElementTree.fromstring(shown.picture)
    assert root.tag == f"{SVG}svg"
    assert not [own for own in root.iter() if own.get("href", "#").startswith("http")]


def parsed(command: str) -> argparse.Namespace:
    """The options of a command of ours, which `command` calls."""
    name, *words = command.removeprefix("sudo ").split()
    called = importlib.import_module(name.replace("-", "_") + ".cli")
    program = called.main.__self__
    return program.parser(words[0]).parse_args(words)


@recorded
def test_the_command_of_what_is_recorded_can_be_run(own: record.Recorded) -> None:
    for part in own.command.split(" && "):
        if "python -m " not in part:
            parsed(part)
            continue
        module, *words = part.partition("python -m ")[2].split()
        text = Path(importlib.util.find_spec(module).origin).read_text()
        assert all(f'"{word}"' in text for word in words if word.startswith("--")), part


def test_commands_repeat_as_often_as_their_files_say() -> None:
    commands = {own.name: own.command for own in RECORDED}
    bench, links = map(results, ("bench", "links"))
    assert f"--repeats {bench['rounds']} " in commands["bench"]
    by_dtype, command = results("bench-dtypes"), parsed(commands["bench-dtypes"])
    assert (command.elements or dtypes.DTYPE_ELEMENTS) == by_dtype["elements"]
    if command.repeats:
        assert {row["rounds"] for row in by_dtype["rows"]} == {command.repeats}
    said = {
        (ranks, rate): options.repeats or 7
        for options in map(parsed, commands["links"].split(" && "))
        for ranks in options.ranks
        for rate in options.rate
    }
    rates = {1e8: "100Mbit", 1e9: "1Gbit", 1e10: "10Gbit", None: "none"}
    assert said == {
        (own["ranks"], rates[own["rate_bits_per_second"]]): own["repeats"]
        for own in links["settings"]
    }


@full_runs
def test_recorded_full_runs_are_of_these_experiments(name: str) -> None:
    found = store.read(find(name), paths()[name])
    assert found is not None
    assert not found.settings.quick
    shown = exhibits.of_full_run(found)
    check_claims(shown.claims)


def test_a_file_that_is_not_there_is_not_shown(tmp_path: Path) -> None:
    assert record.read(tmp_path / "absent.json") is None


def test_slower_than_plain_is_marked() -> None:
    document = results("links")
    (own,) = (own for own in RECORDED if own.name == "links")
    times = own.tables(document)[0]
    assert times.lost_cells
    for row, column in times.lost_cells:
        assert float(times.rows[row][column].split(" to ")[1].rstrip(")")) < 1
    marked = sum(float(cell.split(" to ")[1].rstrip(")")) < 1
                 for row in times.rows for cell in row[1:] if " to " in cell)  # fmt: skip
    assert marked == len(times.lost_cells)


def test_a_table_is_the_same_in_documents_and_on_the_page() -> None:
    table = ShownTable(["", "b"], [["`x|y`", "**no**"], ["", "<2"]], lost=frozenset({1}))
    assert markdown(table) == "|  | b |\n| --- | --- |\n| `x\\|y` | **no** |\n|  | <2 |"
    text = as_html(table)
    assert "<code>x|y</code>" in text
    assert "<b>no</b>" in text
    assert text.count('<tr class="lost">') == 1
    assert "&lt;2" in text


def test_long_tables_are_folded_up_and_say_how_many_are_marked() -> None:
    table = ShownTable(["a"], [[str(n)] for n in range(20)], lost=frozenset({3}))
    assert "<summary>all 20 rows, 1 of them marked</summary>" in as_html(table)


def test_figures_follow_light_and_dark() -> None:
    text = figures.svg(lambda: draw(result("a").rows))
    assert "prefers-color-scheme:dark" in text
    variable = re.search(rf"--(\w+):{figures.BLUE}", text)
    assert variable is not None
    assert f"stroke: var(--{variable[1]})" in text
    assert f"--{variable[1]}:{figures.DARK[figures.BLUE]}" in text
    theme, classes, body = re.split("text{|</style>", text, maxsplit=2)
    assert "var(--" in classes
    assert not [colour for colour in figures.DARK if colour in classes + body]
    assert theme.count("#") == 2 * len(figures.DARK)
    assert "<text" in body
    assert text == figures.svg(lambda: draw(result("a").rows))
