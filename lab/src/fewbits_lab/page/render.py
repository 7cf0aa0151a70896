"""One page with every result of a folder: figures, tables, claims, and where all of it is from."""

import re
from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from fewbits.report import html
from fewbits.report.style import CSS
from fewbits_lab import record
from fewbits_lab.index import RECORDED
from fewbits_lab.page import claims
from fewbits_lab.page.exhibits import Exhibit, full_name, label
from fewbits_lab.page.style import LABORATORY_CSS
from fewbits_lab.record import Headline
from fewbits_lab.sections import SECTIONS, PageSection
from fewbits_lab.store import StudyResult
from fewbits_lab.tables import ShownTable, as_html, marked

_TITLE = (
    "<h1>fewbits: the laboratory report</h1>"
    "<p>Compression of gradients by two papers: what was measured, what was modelled, and where it "
    "loses.</p>"
)
_HEADLINES = 3
_CLAIMED = (
    "**Natural compression** rounds values to powers of two at random, 9 bits in place of 32, and "
    "trains as well in less time; **optimal compression** bounds what any operator can reach "
    "and comes near it, with 9.9 times less communication than none."
)
_LOSSES = (("links-limits", 0), ("time-saved-recorded", 2))  # findings on where it does not pay
_POINT = 4 / 3  # pixels
_LEGIBLE = 0.78  # of its natural width: a figure is not drawn smaller, it scrolls
_UNQUOTED = " !$'()*+,-./:;<=>?@[]_{}|~"  # what stays itself in a figure's address
_SIZE = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt"')
_MORE = PageSection("more", "More", "Experiments that are in no section above.", {})
_CLAIMS, _PRINTED, _REPEAT = "claims", "papers", "repeat"


def render(shown: Sequence[Exhibit], results: Sequence[StudyResult]) -> str:
    """The page."""
    named = {exhibit.name: exhibit for exhibit in shown}
    placed = {each for section in SECTIONS for name in section.items for each in _both(name)}
    rest = _MORE._replace(items={name: "" for name in named if name not in placed})
    sections = (*SECTIONS, rest) if rest.items else SECTIONS
    links = "".join(
        f'<li><a href="#{_place(section.name)}">{escape(section.title)}</a></li>'
        for section in sections
    )
    body = [
        _TITLE,
        _headlines(shown),
        _in_short(shown),
        f'<nav><ul>{links}<li><a href="#{_place(_REPEAT)}">To repeat it</a></li></ul></nav>',
        *(_section(section, named) for section in sections),
        _foldable("To repeat it", _repeat(shown, results), _place(_REPEAT)),
    ]
    return html.page("fewbits: the laboratory report", body, CSS + LABORATORY_CSS)


def _place(section: str) -> str:
    """The anchor of a section; some have the name of an exhibit in them."""
    return f"section-{section}"


def _both(name: str) -> tuple[str, str]:
    """An experiment's recorded full run, and its own."""
    return full_name(name), name


def _headlines(shown: Sequence[Exhibit]) -> str:
    found = [(own.name, own.headline) for own in shown if own.headline is not None]
    tried = claims.held(shown)
    compared = sum(own.compared for own in shown)
    if compared:
        agreed = compared - sum(len(own.departures) for own in shown)
        text = "printed values of the papers reproduce here; every other one has its reason below"
        found.append((_place(_PRINTED), Headline(f"{agreed} of {compared}", text)))
    if tried:
        text = "claims of the papers that were tried hold here; those by formula are not counted"
        found.append(
            (
                _place(_CLAIMS),
                Headline(f"{sum(own[1] for own in tried)} of {sum(own[2] for own in tried)}", text),
            )
        )
    cards = "".join(
        f'<li><a href="#{name}"><b>{escape(own.number)}</b> {marked(own.text)}</a></li>'
        for name, own in found[:_HEADLINES]
    )
    return f'<ul class="numbers">{cards}</ul>' if cards else ""


def _in_short(shown: Sequence[Exhibit]) -> str:
    """What was claimed, what was found, and where it does not pay, in a sentence or two each."""
    tried = claims.held(shown)
    if not tried:
        return ""
    found = " and ".join(f"{held} of {count} claims of **{paper}**" for paper, held, count in tried)
    left = " and ".join(f"{count} {how}" for how, count in claims.left(shown).items() if count)
    said = {
        "Claimed": _CLAIMED,
        "Found": f"{found} that were tried here hold{f', {left}' if left else ''}: the [table of "
        f"claims](#{_place(_CLAIMS)}) has each with its figure, and says why where one does not "
        "hold.",
    }
    limits = {own.name: own.findings for own in shown}
    lost = [limits[name][place] for name, place in _LOSSES if len(limits.get(name, ())) > place]
    if lost:
        said["Where it does not pay"] = " ".join(lost)
    return html.facts({name: marked(text) for name, text in said.items()})


def _foldable(title: str, content: str, name: str) -> str:
    """A section that folds up; it is open, so that it prints and is found."""
    head = f"<summary><h2>{title}</h2></summary>"
    return f'<section id="{name}"><details class="fold" open>{head}{content}</details></section>'


def _section(section: PageSection, named: dict[str, Exhibit]) -> str:
    content = [f"<p>{marked(section.about)}</p>"]
    if section.name == _CLAIMS:
        content.append(_claims(list(named.values())))
    if section.name == _PRINTED:
        content.append(_departures(list(named.values())))
    present = [(named[each], how) for name, how in section.items.items() for each in _both(name)
               if each in named]  # fmt: skip
    content += [_exhibit(exhibit, how) for exhibit, how in present]
    absent = [name for name in section.items if not named.keys() & set(_both(name))]
    if section.items or section.name not in (_CLAIMS, _PRINTED):
        content.append(_absent(absent, empty=not present))
    return _foldable(escape(section.title), "".join(content), _place(section.name))


def _absent(names: Sequence[str], *, empty: bool) -> str:
    """The results that are missing in the folder, and how to get them."""
    files = {own.name: f"{own.result}.json" for own in RECORDED}
    lacking = dict.fromkeys(files[name] for name in names if name in files)
    computed = [name for name in names if name not in files]
    said = ["Nothing is here yet."] if empty and not names else []
    if lacking:
        said.append(
            f"No recorded results ({', '.join(lacking)}): `--recorded DIR` names a folder of them."
        )
    if computed:
        said.append(f"Not computed: `fewbits-lab run {' '.join(computed)} --out DIR` does.")
    return f'<p class="soft">{marked(" ".join(said))}</p>' if said else ""


def _exhibit(own: Exhibit, how: str) -> str:
    findings = "".join(f"<li>{marked(found)}</li>" for found in own.findings)
    files = " · ".join(f'<a href="{escape(name)}">{escape(name)}</a>' for name in own.files)
    kind = f"{how[0].upper()}{how[1:]}. " if how else ""
    whole = (
        f'<article id="{escape(own.name)}"><h3>{escape(own.title)}</h3>'
        f"<p>{marked(own.about)}</p>"
        f"{f'<ul>{findings}</ul>' if findings else ''}"
        f"{_figure(own)}{''.join(as_html(table) for table in own.tables)}"
        f'<p class="soft">{escape(kind)}{escape(own.origin)} <code>{escape(own.command)}</code> '
        f"· {files}</p></article>"
    )
    title = f"{escape(own.title)}: the quick run"
    return f"<details><summary>{title}</summary>{whole}</details>" if own.folded else whole


def _figure(own: Exhibit) -> str:
    """The picture, not drawn smaller than can be read."""
    found = _SIZE.search(own.picture)
    assert found is not None, f"{own.name}: the figure has no size"
    width, height = (round(_POINT * float(size)) for size in found.groups())
    data = quote(" ".join(own.picture.replace('"', "'").split()), safe=_UNQUOTED)
    file = next(name for name in own.files if name.endswith(".svg"))
    return (
        f'<figure class="picture"><a href="{escape(file)}"><img alt="{escape(own.title)}" '
        f'width="{width}" height="{height}" style="min-width:{round(_LEGIBLE * width)}px" '
        f'src="data:image/svg+xml,{data}"></a></figure>'
    )


def _claims(shown: Sequence[Exhibit]) -> str:
    table = claims.table(shown)
    none = "<p>No result in this folder decides a claim.</p>"
    return as_html(table) if table.rows else none


def _departures(shown: Sequence[Exhibit]) -> str:
    rows = [
        (exhibit.title, label(row), str(row.printed), f"{row.ours:.6g}", row.reason)
        for exhibit in shown
        for row in exhibit.departures
    ]
    if not any(own.compared for own in shown):
        return ""
    if not rows:
        return "<p>Every printed value among these results reproduces.</p>"
    table = ShownTable(("where", "what", "printed", "ours", "reason"), rows, wordy=True)
    return f"<h3>What does not reproduce, and why</h3>{as_html(table)}"


def _repeat(shown: Sequence[Exhibit], results: Sequence[StudyResult]) -> str:
    """Machine, versions, seeds, commands."""
    machines = dict.fromkeys(
        record.described(own.made["machine"]) for own in results if "machine" in own.made
    )
    settings = dict.fromkeys(
        f"seed {own.settings.seed}, {'quick' if own.settings.quick else 'full'}" for own in results
    )
    seconds = sum(own.made.get("seconds", 0) for own in results)
    facts = {
        "machine and versions": "<br>".join(map(escape, machines)) or "not in the files",
        "seeds and effort": escape("; ".join(settings)) or "nothing was computed",
        "computed": f"{len(results)} experiments in {seconds:,.0f} s",
        "all of it": "<code>fewbits-lab all --out DIR</code>",
        "this page alone": "<code>fewbits-lab report DIR</code>, from the JSON files beside it",
    }
    times = {own.experiment.name: own.made.get("seconds") for own in results}
    rows = [
        [f"`{own.name}`", f"`{own.command}`", "" if (spent := times.get(own.name)) is None
         else f"{spent:,.1f}"]
        for own in shown
    ]  # fmt: skip
    table = ShownTable(["result", "command", "seconds"], rows, title="Commands")
    return html.facts(facts) + as_html(table)
