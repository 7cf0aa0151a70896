"""Measured numbers in README and docs are those of the result files, and none is typed by hand."""

import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import scipy.stats

from fewbits import presets, registry
from fewbits.core.stage import Stage
from fewbits_lab.prose import paragraph
from fewbits_lab.rendered import links as rendered_links
from fewbits_lab.rendered import operators, readme, speed
from fewbits_lab.rendered.__main__ import drawn, settled
from fewbits_lab.rendered.blocks import MARKED, refused, renewed, stale
from fewbits_lab.rendered.pages import PAGES
from fewbits_lab.results import results
from fewbits_lab.studies.accuracy import text as accuracy
from fewbits_lab.studies.accuracy.show import accuracy_claims, paired_points
from fewbits_lab.studies.bench import text as bench
from fewbits_lab.studies.bits_error import text as bits_error
from fewbits_lab.studies.links import chart
from fewbits_lab.studies.links import show as links_show
from fewbits_lab.studies.links import text as links_text

ROOT = Path(__file__).resolve().parents[2]
STATED = tomllib.loads((ROOT / "tests" / "stated_numbers.toml").read_text())
OPERATORS = {**registry.catalogue().by_name, **registry.catalogue().stages}
TEXTS = {  # an operator's page is the docstring of its module
    f"docs/operators/{name}.md": inspect.getdoc(inspect.getmodule(own)) or ""
    for name, own in OPERATORS.items()
} | {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "examples").glob("*/README.md"),
    )
}
NOT_PROSE = re.compile(
    r"^```.*?^```$|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$|\]\([^)]*\)|https?://\S+",
    re.DOTALL | re.MULTILINE,
)
UNITS = r"%|×|x\b|times\b|points\b|ms\b|ns\b|µs\b|[kMG]B(?:/s)?\b|[MG]bit/s|Gsym/s"
WORDS = "two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|hundred"
LOOKS_MEASURED = re.compile(
    rf"(?<![\w.])\d[\d,]*(?:\.\d+)?\s?(?:{UNITS})"  # a number with a unit of measurements
    r"|(?<![\w.^])\d[\d,]*\.\d+(?![\w.]*\d)"  # any decimal
    r"|±|·\s10[⁻⁰¹²³⁴-⁹]"
    rf"|\b(?:{WORDS})\stimes\s(?:as\s(?:fast|large|small|many)|faster|fewer|smaller|less)\b"
)


def typed_by_hand(page: str, text: str) -> Iterator[str]:
    """What looks measured outside of blocks, code and formulas, and is not stated to be another."""
    prose = " ".join(NOT_PROSE.sub(" ", MARKED.sub("", text)).split())
    for phrase in STATED["stated"].get(page, {}):
        prose = prose.replace(phrase, "")
    for found in LOOKS_MEASURED.finditer(prose):
        yield prose[max(found.start() - 40, 0) : found.end() + 20]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_as_it_is_made_from_the_results(page: str) -> None:
    names = stale(TEXTS[page], PAGES[page])
    assert not names, f"{page}: {', '.join(names)} stale; `make numbers` writes them"


def test_a_block_of_a_page_without_renderer_is_stale() -> None:
    for page, text in TEXTS.items():
        assert page in PAGES or not MARKED.search(text), page


def test_a_changed_number_is_stale_and_written_back() -> None:
    page, name = "docs/when-not.md", "race"
    changed = TEXTS[page].replace("| `tiny` | 0.1 |", "| `tiny` | 0.2 |")
    assert changed != TEXTS[page]
    assert stale(changed, PAGES[page]) == [name]
    assert renewed(changed, PAGES[page]) == TEXTS[page]
    without = MARKED.sub(lambda block: "" if block["name"] == name else block[0], TEXTS[page])
    assert stale(without, PAGES[page]) == [name]


MADE = "<!-- measured: own -->\n3.4 times\n<!-- end -->\n"


@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        (MADE.replace("3.4", "9.9"), "own is there 2 times"),
        (MADE.replace("own", "foreign"), "nothing makes foreign"),
    ],
)
def test_blocks_that_are_there_twice_or_that_nothing_makes_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str, wrong: str
) -> None:
    blocks, page = {"own": lambda: "3.4 times"}, tmp_path / "page.md"
    assert refused(MADE, blocks) == stale(MADE, blocks) == []
    for text in (other + MADE, MADE + other):  # the right one hides the other in no order
        assert stale(text, blocks)
        page.write_text(text)
        for write in (False, True):
            assert settled(page.name, blocks, write=write, root=tmp_path) == [wrong]
            assert page.read_text() == text
    assert not capsys.readouterr().out


def test_written_is_said_only_of_a_page_that_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks, page = {"own": lambda: "3.4 times"}, tmp_path / "page.md"
    page.write_text(MADE.replace("3.4", "9.9"))
    (wrong,) = settled(page.name, blocks, write=False, root=tmp_path)
    assert wrong.startswith("own is stale")
    for said in ("page.md: written\n", ""):
        assert settled(page.name, blocks, write=True, root=tmp_path) == []
        assert (page.read_text(), capsys.readouterr().out) == (MADE, said)
    page.write_text("No block at all.\n")  # cannot be written, as nobody knows where
    (missing,) = settled(page.name, blocks, write=True, root=tmp_path)
    assert missing.startswith("own is stale or missing")
    assert not capsys.readouterr().out


@pytest.mark.parametrize("page", sorted(TEXTS.keys() - STATED["exempt"].keys()))
def test_no_measured_number_is_typed_by_hand(page: str) -> None:
    found = list(typed_by_hand(page, TEXTS[page]))
    assert not found, (
        f"{page}: {found}; render what is measured (fewbits_lab.rendered), "
        "state in tests/stated_numbers.toml what else it is"
    )


@pytest.mark.parametrize(
    "text",
    [
        "It is 3.4 times faster.",
        "It runs at 266 MB/s.",
        "The error is +0.06 ± 0.16.",
        "It took 5 to 10 % off a step.",
        "It has 0.94 bits.",
        "A step is four times as fast.",
    ],
)
def test_what_looks_measured_is_found(text: str) -> None:
    assert list(typed_by_hand("docs/new.md", text))
    block = f"<!-- measured: own -->\n{text}\n<!-- end -->\n"
    assert not list(typed_by_hand("docs/new.md", block))


def test_every_statement_is_still_needed() -> None:
    assert STATED["exempt"].keys() <= TEXTS.keys()
    for page, phrases in STATED["stated"].items():
        for phrase, reason in phrases.items():
            prose = " ".join(NOT_PROSE.sub(" ", MARKED.sub("", TEXTS[page])).split())
            assert phrase in prose, (page, phrase)
            assert LOOKS_MEASURED.search(phrase), (page, phrase)
            assert reason


def test_every_operator_has_its_row_in_the_readme_and_no_other() -> None:
    assert {cls.name for cls in operators.every()} == OPERATORS.keys()
    for cls in operators.every():
        assert cls.summary()
        assert cls.formula
        spec = operators.measured_spec(cls)
        assert registry.operator(spec)
        assert spec.startswith(cls.name)
        assert f"| `{cls.name}` | " in operators.operators_table()
        assert f"| `{cls.name}` | " in readme.operators_table()
        assert f"| {cls.code} | `{cls.name}` | " in operators.codes_table(
            stages=issubclass(cls, Stage)
        )
    shown = {spec.partition(":")[0].partition("|")[0] for spec in bits_error.PROMISES}
    assert shown <= OPERATORS.keys()


def test_what_was_not_measured_is_a_dash() -> None:
    assert operators.figures("standard-dithering:levels=99") == ["–"] * 4
    assert "–" not in operators.figures("natural")


def test_a_line_of_a_paragraph_never_begins_like_an_item_of_a_list() -> None:
    for width in range(40, 60):
        text = f"{'word ' * width}against zstd 1. And so on - and * on"
        lines = paragraph(text).splitlines()
        assert len(lines) > 1
        assert " ".join(lines) == text
        assert not any(re.match(r"(\d+\.|[-*]) ", line) for line in lines)


PLAIN = [0.98, 0.97, 0.99, 0.98, 0.96]


def changed_by(*points: float) -> dict[str, list[float] | float]:
    """Runs that differ so from plain ones, beside summaries that are false."""
    compressed = [own + gap / 100 for own, gap in zip(PLAIN, points, strict=True)]
    summary = {"mean_difference_points": 77.0, "standard_error_points": 0.0}
    return {"plain": PLAIN, "compressed": compressed, "workers": 4, "epochs": 1,
            "times_fewer_bytes": 3.0, **summary}  # fmt: skip


def test_intervals_of_accuracy_are_students_from_single_runs() -> None:
    for data in accuracy.DATA:
        own = results("accuracy")[data]
        fair = scipy.stats.ttest_rel(own["compressed"], own["plain"]).confidence_interval(0.95)
        found = accuracy.natural(data)
        assert [found.low, found.high] == pytest.approx([100 * one for one in fair], abs=1e-3)
        assert f"{found.mean:+.2f} ± {found.half:.2f}" in accuracy.accuracy_table()
    with pytest.raises(ValueError, match="5 and 4 runs"):
        paired_points(PLAIN, PLAIN[1:])
    with pytest.raises(ValueError, match="no interval"):
        paired_points(PLAIN[:1], PLAIN[:1])


@pytest.mark.parametrize(
    ("points", "agrees", "said"),
    [
        ((0.1, -0.1, 0.2, -0.2, 0.0), True, "On digits and MNIST the seeds do not tell"),
        ((-0.3, -0.4, -0.3, -0.4, -0.35), False, "On digits accuracy is lower than plain DDP's"),
        ((0.3, 0.4, 0.3, 0.4, 0.35), True, "On digits accuracy is higher than plain DDP's"),
        ((3.0, -3.0, 2.0, -2.0, 0.0), None, "On digits and MNIST the seeds do not tell"),
    ],
)
def test_noise_is_no_proof_of_equal_accuracy(
    monkeypatch: pytest.MonkeyPatch, points: tuple[float, ...], agrees: bool | None, said: str
) -> None:
    made = dict.fromkeys(accuracy.DATA, changed_by(*points))
    monkeypatch.setattr(accuracy, "results", lambda _: made)
    text = " ".join(accuracy.claim().split())
    found = accuracy.natural("mnist")
    assert found.mean == pytest.approx(sum(points) / 5)
    assert said in text
    assert f"more than {max(-found.low, found.high):.2f} points on digits" in text
    assert "77" not in text + accuracy.accuracy_table()
    (claim,) = accuracy_claims(made)
    assert claim.agrees is agrees
    assert bool(claim.why) is (agrees is not True)
    assert ("is excluded" in claim.ours) is (agrees is True)
    assert f"{found.mean:+.2f} ± {found.half:.2f} points, 5 paired seeds, 95 %" in claim.ours


def test_what_is_faster_than_our_best_on_a_slow_link_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = rendered_links.slow_link()
    assert (slow["rate_bits_per_second"], slow["ranks"]) == (1e8, 2)
    best = min(links_show.median(slow, name) for name in links_show.LINK_OURS)
    said = " ".join(rendered_links.biased_are_faster().split())
    for name in (*links_text.LINK_POWERSGD, "tiny"):
        own = links_show.row(slow, name)
        assert own["step_seconds"]["median"] < best
        assert f"`{name}` {own['times_plain']['value']:.1f} (" in said
    slower = [
        {**own, "step_seconds": {"median": 2 * best}} if own["contender"] == "tiny" else own
        for own in slow["contenders"]
    ]
    monkeypatch.setattr(rendered_links, "slow_link", lambda: {**slow, "contenders": slower})
    said = " ".join(rendered_links.biased_are_faster().split())
    assert "`tiny`" not in said
    monkeypatch.setattr(links_text, "LINK_POWERSGD", ())
    assert "no biased method is faster" in rendered_links.biased_are_faster()


def test_the_step_of_the_headline_has_its_interval() -> None:
    slow = rendered_links.slow_link()
    ratio = links_show.row(slow, links_text.fastest(slow, links_show.LINK_OURS))["times_plain"]
    value, low, high = (f"{ratio[key]:.1f}" for key in ("value", "low", "high"))
    shown = f"**{value} times as fast a step** ({low} to {high}, 95 %)"
    assert shown in " ".join(readme.headline().split())


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (
            {"compress": 0.82, "decompress": 0.98},
            "to `decompress`, but it does not make `compress` f",
        ),
        ({"compress": 1.80, "decompress": 0.98}, "pass `out=` to `compress` and `decompress`"),
        ({"compress": 0.90, "decompress": 0.48}, "it does not make `compress` and `decompress` f"),
    ],
)
def test_out_is_advised_where_it_was_measured_to_be_faster(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, float], advice: str
) -> None:
    fresh = {"compress(new) natural": 0.88, "decompress(new) natural": 0.47}
    made = {**fresh, **{f"{call}(out) natural": times for call, times in given.items()}}
    monkeypatch.setattr(bench, "times_memcpy", made.__getitem__)
    assert advice in speed.advice_on_out()


def test_a_figure_is_drawn_anew_only_if_it_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for before, write, wrong, said in (
        (None, False, 1, ""), (None, True, 0, "own.svg: written\n"), ("<svg/>", True, 0, ""),
        ("old", False, 1, ""),
    ):  # fmt: skip
        if before is not None:
            (tmp_path / "own.svg").write_text(before)
        assert len(drawn("own.svg", lambda: "<svg/>", write, tmp_path)) == wrong
        assert capsys.readouterr().out == said


def test_the_readme_is_short_and_gives_the_planners_answer() -> None:
    text = TEXTS["README.md"]
    assert len(text.split()) <= 1100
    (advised,) = re.findall(r"^\*\*`([^`]+)`\*\*: unbiased", text, re.MULTILINE)
    assert readme.forecast("1Gbit").startswith(f"verdict: {advised}: ")
    assert readme.forecast(readme.FAST).startswith("verdict: do not compress")
    assert f"| to switch it on and not think | `{advised}`" in TEXTS["docs/choosing.md"]


def test_readme_choosing_and_plan_name_the_same_operators() -> None:
    answer = TEXTS["README.md"].partition("## Which operator?")[2].partition("<!--")[0]
    named = set(re.findall(r"`([a-z-]+(?::coder=rans)?)`", answer))
    assert named == {"natural:coder=rans", "natural", "two-bit", "tiny", "low-rank"}
    short = TEXTS["docs/choosing.md"].partition("## What it costs")[0]
    assert all(f"| `{name}`" in short for name in named)
    assert named - {"tiny", "low-rank"} == set(presets.advised().values()) - {"bfloat16"}
    assert named - set(presets.advised().values()) <= presets.PRESETS.keys()


def test_the_chart_passes_through_what_was_measured_and_marks_the_crossing() -> None:
    links = chart.shaped()
    rates = [own["rate_bits_per_second"] / 1e9 for own in links]
    for name in chart.CHARTED:
        seconds = [links_show.median(own, name) for own in links]
        assert chart.between(links, name, rates) == pytest.approx(seconds)
    crossed = links_show.crossing(links, chart.CHART_RANKS, "none", "natural")
    if crossed is not None:
        both = [chart.between(links, name, [crossed]) for name in ("none", "natural")]
        assert both[0] == pytest.approx(both[1])
        assert f"{crossed:.1f} Gbit/s" in chart.chart_alt()
