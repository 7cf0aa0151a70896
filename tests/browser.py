"""A page in headless Chromium: what a reader would stumble over, as a list of sentences."""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
LEAST_CONTRAST = 4.5  # of text to its background, what WCAG asks for
INSIDE = ("file:", "data:", "about:")

# The widest element is named, so that a failure says what to mend.
OVERFLOW = """() => {
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  if (wide <= 0) return null;
  const all = [...document.querySelectorAll('body *')];
  const last = all.sort((a, b) => b.getBoundingClientRect().right
                                - a.getBoundingClientRect().right)[0];
  return `${wide} px, <${last.tagName.toLowerCase()} class="${last.className}">`;
}"""
BROKEN = """() => [...document.images].filter(i => !(i.complete && i.naturalWidth > 0))
  .map(i => i.alt || i.src.slice(0, 80))"""
CONTRAST = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    for (let own = element; own; own = own.parentElement) {
      const colour = parse(getComputedStyle(own).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = {};
  for (const element of document.querySelectorAll('h1,h2,h3,p,li,a,td,th,code,summary,dt,dd,b')) {
    if (!element.innerText) continue;
    const pair = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    const name = `<${element.tagName.toLowerCase()} class="${element.className}">`;
    found[name] = Math.min(ratio, found[name] ?? 99);
  }
  return found;
}"""


@contextmanager
def chromium() -> Iterator[Any]:
    """The system's browser, or a skipped test that says what to install."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(NAMES)}")
    with sync_api.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, path: Path, width: int, scheme: str) -> Iterator[tuple[Any, list[str]]]:
    """The page, and what the browser complains about or wants from elsewhere while it loads."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    heard: list[str] = []
    page = context.new_page()
    page.on("console", lambda said: heard.append(f"console {said.type}: {said.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("request", lambda own: heard.append(f"external request: {own.url}")
            if not own.url.startswith(INSIDE) else None)  # fmt: skip
    try:
        page.goto(path.resolve().as_uri(), wait_until="load")
        yield page, heard
    finally:
        context.close()


def faults(page: Any, heard: list[str]) -> list[str]:
    """Everything that is wrong with an opened page."""
    found = list(heard)
    found += [f"broken image: {name}" for name in page.evaluate(BROKEN)]
    wide = page.evaluate(OVERFLOW)
    if wide:
        found.append(f"wider than the window by {wide}")
    for name, ratio in page.evaluate(CONTRAST).items():
        if ratio < LEAST_CONTRAST:
            found.append(f"contrast {ratio:.1f} of {name}")
    return found


def colours(page: Any, selector: str) -> tuple[float, float]:
    """The darkest and the lightest grey of the first such element, as it is drawn."""
    image = pytest.importorskip("PIL.Image", reason="pip install pillow")
    picture = image.open(io.BytesIO(page.locator(selector).first.screenshot())).convert("L")
    low, high = picture.getextrema()
    return float(low), float(high)


def background(page: Any, selector: str) -> float:
    """The commonest grey of the first such element, as it is drawn."""
    image = pytest.importorskip("PIL.Image", reason="pip install pillow")
    picture = image.open(io.BytesIO(page.locator(selector).first.screenshot())).convert("L")
    counts = picture.histogram()
    return float(counts.index(max(counts)))
