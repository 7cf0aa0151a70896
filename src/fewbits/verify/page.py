"""The document of a verification as text for a terminal, and as a page."""

from collections.abc import Iterator
from html import escape
from typing import Any

from fewbits.report import html
from fewbits.verify.document import VerifyDocument

_PARTS = {
    "vectors": "vectors through the kernels",
    "checksums": "checksums",
    "damage": "flipped bytes in messages",
    "ranks": "ranks against ranks on the CPU",
    "speeds": "speed against a copy on the device",
}


def rows(document: VerifyDocument) -> Iterator[tuple[str, str, str]]:
    """Each part: what was compared, whether it held, and how much."""
    for name, title in _PARTS.items():
        if name in document:
            own = document[name]
            yield title, "held" if own["held"] else "FAILED", amount(name, own)
    for name, reason in document["not_run"].items():
        yield _PARTS[name], "not run", reason


def amount(name: str, own: dict[str, Any]) -> str:
    """How much of a part was done."""
    if "error" in own or set(own) <= {"held", "differences", "seconds"}:
        return "ended with an error"
    if name == "vectors":
        more = f"; --thorough runs {own['left_out']} more" if own["left_out"] else ""
        return f"{own['runs']} runs of {own['cases']} cases, {own['failed']} cases differ{more}"
    if name == "checksums":
        return f"{own['compared']} compared"
    if name == "damage":
        return f"{own['flipped']} flipped, all found and named" if own["held"] else "see below"
    if name == "ranks":
        specs = ", ".join(own["specs"])
        return f"{own['ranks']} ranks, {own['steps']} steps of {specs}"
    return f"{len(own['kernels'])} kernels"


def differences(document: VerifyDocument) -> list[str]:
    return [text for name in _PARTS for text in document.get(name, {}).get("differences", ())]


def verdict(document: VerifyDocument) -> str:
    device = document["device"]
    if document["held"]:
        what = "everything that was run" if "ranks" in document["not_run"] else "everything"
        return f"{device['name']}: {what} held, the same bits as the CPU"
    return f"{device['name']}: {differences(document)[0]}"


def text(document: VerifyDocument) -> list[tuple[str, ...]]:
    return list(rows(document))


def render(document: VerifyDocument) -> str:
    """One page without network or scripts."""
    machine = {escape(name): escape(str(own)) for name, own in document["machine"].items() if own}
    device = {escape(name): escape(str(own)) for name, own in document["device"].items()}
    found = differences(document)
    listed = "".join(f"<li>{escape(own)}</li>" for own in found) or "<li>none</li>"
    parts = [[escape(cell) for cell in row] for row in rows(document)]
    body = [
        f"<h1>fewbits verify</h1><p>{escape(verdict(document))}.</p>",
        f"<p>{escape(document['note'])}</p>",
        html.section("What was compared", html.table(("part", "result", "how much"), parts)),
        html.section("Differences", f"<ul>{listed}</ul>"),
        html.section("Device", html.facts(device)),
        html.section("Machine", html.facts(machine)),
    ]
    if "kernels" in document.get("speeds", {}):
        speeds = [
            [escape(row["kernel"]), f"{row['values_per_second']:.3g}", f"{row['times_copy']:.2f}"]
            for row in document["speeds"]["kernels"]
        ]
        titles = ("kernel", "values a second", "× speed of a copy")
        body.append(html.section("Speed", html.table(titles, speeds)))
    refused = document.get("vectors", {}).get("refused", {})
    body.append(
        html.section("Refused", html.facts({escape(a): escape(b) for a, b in refused.items()}))
    )
    return html.page("fewbits verify", body)
