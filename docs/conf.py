"""Sphinx configuration; pages of operators and of the API are written before reading."""

import re
import sys
from inspect import getdoc, getmodule
from pathlib import Path

import numpy as np
from sphinx.application import Sphinx

import fewbits
from fewbits.core.component import Component
from fewbits.core.operator import Operator
from fewbits.core.parameters import fields
from fewbits.reference.formats import BY_NAME, FORMATS
from fewbits.registry import catalogue, example_specs
from fewbits_lab.studies.reliability.text import marked

sys.path.insert(0, str(Path(__file__).parent))
import api_pages

project = "fewbits"
author = "The fewbits contributors"
project_copyright = "The fewbits contributors"
release = fewbits.__version__

extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
myst_dmath_double_inline = True  # docstrings write displayed formulas inside paragraphs
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"fewbits {release}"
html_static_path = ["_static"]

OPERATORS, API = (Path(__file__).parent / name for name in ("operators", "api"))
DIMENSION = 1_000_000
SEED = 7

_OPERATOR_FILES = "src/fewbits/operators/"
_TO_SOURCES = re.compile(
    rf"\]\(\.\./(CONTRIBUTING\.md|src/fewbits/__init__\.py|{_OPERATOR_FILES}(?:\w+\.py)?)\)"
)
"""Links out of the folder of documents, to files from which pages of the site are made."""

INDEX = """# Operators

Every operator is a lossy map of vectors. Its page is the docstring of its module, and this table is
made from the code.

| spec | guarantee | bits per value | code |
| --- | --- | --- | --- |
{rows}

*Guarantee*: ω means unbiased with $E\\|C(x) - x\\|^2 \\le \\omega \\|x\\|^2$; α means
$\\|C(x) - x\\|^2 \\le \\alpha \\|x\\|^2$ for every vector,
without expectation unless it says so. Both hold in the
range that `guarantee()` states, for `float32`. *Bits per value* are measured: 8 · `len(frame)` /
{dimension:,} for a Gaussian `float32` vector, header and checksum included.

```{{toctree}}
:maxdepth: 1

{pages}
```
"""

PAGE = """# `{name}`

{docstring}

## On the wire and in text

Code {code}. {parameters}

| dtype | guarantee | holds for magnitudes |
| --- | --- | --- |
{guarantees}
"""


def everything() -> dict[str, type[Component]]:
    """Operators and stages by name, in the order of their codes."""
    found = {**catalogue().by_name, **catalogue().stages}
    return dict(sorted(found.items(), key=lambda item: item[1].code))


def promise(operator: Operator, format_name: str = "float32") -> str:
    """The guarantee in one term."""
    format = BY_NAME[format_name]
    guarantee = operator.guarantee(DIMENSION, format)
    if guarantee.unbiased:
        return f"ω = {guarantee.omega:.4g}"
    return f"α = {guarantee.alpha:.4g}" + ("" if guarantee.sure else " in expectation")


def index() -> str:
    """The table of all operators."""
    x = np.random.default_rng(SEED).standard_normal(DIMENSION, dtype=np.float32)
    rows = []
    for name, cls in everything().items():
        for spec in example_specs(cls, DIMENSION):
            bits = 8 * len(fewbits.compress(x, spec, seed=SEED)) / DIMENSION
            link = f"[`{spec}`]({name}.md)".replace("|", "\\|")
            rows.append(f"| {link} | {promise(fewbits.operator(spec))} | {bits:.2f} | {cls.code} |")
    pages = "\n".join(everything())
    return INDEX.format(rows="\n".join(rows), pages=pages, dimension=DIMENSION)


def page(cls: type[Component]) -> str:
    """An operator's module docstring, its parameters, and its guarantee for each dtype."""
    parameters = [
        f"Parameter {field.number} is `{field.name}`"
        + (
            f", one of {', '.join(f'`{choice}`' for choice in field.choices)}"
            if field.choices
            else ""
        )
        + f" (default `{field.default}`)."
        for field in fields(cls)
    ]
    guarantees = []
    for spec in example_specs(cls, DIMENSION):
        for format in FORMATS:
            own = fewbits.operator(spec).guarantee(DIMENSION, format)
            ends = "all" if own.high == np.inf else f"{own.low:.4g} to {own.high:.4g}"
            what = f"{promise(fewbits.operator(spec), format.name)} (`{spec}`)".replace("|", "\\|")
            guarantees.append(f"| `{format.name}` | {what} | {ends} |")
    return PAGE.format(
        name=cls.name,
        docstring=getdoc(getmodule(cls)),
        code=cls.code,
        parameters=" ".join(parameters) or "No parameters.",
        guarantees="\n".join(guarantees),
    )


def write_operator_pages(_: Sphinx) -> None:
    """Write docs/operators/*.md."""
    write_pages(OPERATORS, index(), {name: page(cls) for name, cls in everything().items()})


def write_api_pages(_: Sphinx) -> None:
    """Write docs/api/*.md."""
    pages = {name: api_pages.page(name) for name in api_pages.MODULES}
    write_pages(API, api_pages.index(), pages)


def write_pages(folder: Path, first: str, pages: dict[str, str]) -> None:
    """Write a folder of pages and its index; what is not among them goes."""
    texts = {"index.md": first} | {f"{name}.md": text for name, text in pages.items()}
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:  # one that has not changed is left alone
            path.write_text(text)


def mark_old_figures(_: Sphinx, name: str, source: list[str]) -> None:
    """Say of each figure of the soak whether the code has changed since."""
    if name == "reliability":
        source[0] = marked(source[0])


def point_into_the_site(_: Sphinx, __: str, source: list[str]) -> None:
    """Lead links to sources, which also work where the repository is read, to pages of the site."""
    source[0] = _TO_SOURCES.sub(lambda found: f"]({_page_of(found[1])})", source[0])


def _page_of(path: str) -> str:
    if path == "CONTRIBUTING.md":
        return "contributing.md"
    if path == "src/fewbits/__init__.py":
        return "api/index.md"
    name = path.removeprefix(_OPERATOR_FILES).removesuffix(".py").replace("_", "-")
    return f"operators/{name or 'index'}.md"


def make_hostable(app: Sphinx, failed: Exception | None) -> None:
    """Tell hosts that run Jekyll to serve the folder as it is, with its _static."""
    if failed is None and app.builder.format == "html":
        (Path(app.outdir) / ".nojekyll").touch()


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", mark_old_figures)
    app.connect("source-read", point_into_the_site)
    app.connect("builder-inited", write_operator_pages)
    app.connect("builder-inited", write_api_pages)
    app.connect("build-finished", make_hostable)
