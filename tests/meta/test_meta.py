"""What must hold of the project's own text."""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fewbits
from cases import CASES
from fewbits import errors, registry
from fewbits.backend import frames, native_rows
from fewbits.backend import library as _native
from fewbits.reference.formats import FORMATS
from fewbits.wire.frame import ParameterType

ROOT = Path(__file__).parent.parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
OPERATORS = sorted({**registry.catalogue().by_code, **registry.catalogue().stage_codes}.items())
sources = pytest.mark.parametrize(
    "path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix()
)


def document(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_exports_are_sorted_and_documented() -> None:
    names = fewbits.__all__
    assert list(names) == sorted(names)
    assert len(set(names)) == len(names)
    for name in names:
        value = getattr(fewbits, name)
        assert inspect.getdoc(value), f"{name} has no docstring"


def test_links_of_documents_lead_to_files_of_the_repository() -> None:
    """They are read where the repository is hosted too, which has no generated pages."""
    made = tuple((ROOT / "docs" / name).as_posix() for name in ("operators", "api", "_build"))
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/**/*.md")]
    dead = [
        f"{page.name}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in link
        and not link.startswith("mailto:")
        and (
            not (path := page.parent / link).exists() or path.resolve().as_posix().startswith(made)
        )
    ]
    assert len(pages) > 30
    assert not dead


def test_every_operator_has_a_row() -> None:
    rows = {type(part) for case in CASES for part in case.parts}
    missing = [cls.__qualname__ for _, cls in OPERATORS if cls not in rows]
    assert not missing, f"add a row to tests/cases.py for {', '.join(missing)}"


def test_rows_are_known_operators() -> None:
    known = registry.catalogue()
    names = {**known.by_name, **known.stages}
    for case in CASES:
        assert all(names[part.name] is type(part) for part in case.parts)
    assert len({case.id for case in CASES}) == len(CASES)


def test_codes_are_unique_and_never_zero() -> None:
    codes = [cls.code for _, cls in OPERATORS]
    assert len(set(codes)) == len(codes)
    assert all(0 < code < 1 << 16 for code in codes)


@pytest.mark.parametrize(("code", "cls"), OPERATORS, ids=[cls.name for _, cls in OPERATORS])
def test_operators_stand_in_the_readme_and_in_the_format(code: int, cls: type[Any]) -> None:
    table = [line for line in document("README.md").splitlines() if line.startswith("|")]
    assert any(f"`{cls.name}`" in line for line in table), f"README.md's table lacks {cls.name}"
    lines = document("docs/format.md").splitlines()
    named = [line for line in lines if re.search(rf"\b{cls.name}\b", line)]
    found = any(re.search(rf"\b{code}\b", line) for line in named)
    assert found, f"docs/format.md does not give {cls.name} the code {code}"


@pytest.mark.parametrize(("code", "cls"), OPERATORS, ids=[cls.name for _, cls in OPERATORS])
def test_operator_modules_state_their_mathematics(code: int, cls: type[Any]) -> None:
    module = inspect.getmodule(cls)
    assert "$" in (module.__doc__ or ""), f"{module.__name__} has no formula"


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Names and lengths of a file's functions, docstrings aside."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node) is not None:
                length -= first.end_lineno - first.lineno + 1
            yield node.name, length


@sources
def test_files_and_functions_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    long = [f"{name}: {length} lines" for name, length in functions(path) if length > 60]
    assert not long, long


@pytest.mark.parametrize("path", sorted((ROOT / "native").glob("*.*")), ids=lambda path: path.name)
def test_native_files_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@sources
def test_nothing_prints_outside_the_command_line(path: Path) -> None:
    if "cli" in path.relative_to(ROOT).parts:
        return
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    names = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
    assert "print" not in names


def test_the_newest_change_is_this_version() -> None:
    version = tomllib.loads(document("pyproject.toml"))["project"]["version"]
    entries = re.findall(r"^## \[?([^\]\s]+)", document("CHANGELOG.md"), re.MULTILINE)
    released = [entry for entry in entries if entry.lower() != "unreleased"]
    assert released[0] == version


def raised_in_tests() -> str:
    texts = [path.read_text(encoding="utf-8") for path in TESTS if path.parent.name != "meta"]
    texts.append(document("tests/golden/bad/index.toml"))
    return "\n".join(texts)


def test_every_error_class_is_expected_by_a_test() -> None:
    """Of the classes that the library makes anywhere; the core's five in any case."""
    library = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    text = raised_in_tests()
    always = {"SpecError", "EncodeError", "DecodeError", "VersionError", "LimitError"}
    for name, cls in vars(errors).items():
        if not isinstance(cls, type) or cls is errors.FewbitsError:
            continue
        if name not in always and not re.search(rf"(?<!class ){name}\(", library):
            continue
        named = rf"(raises|warns)\(\s*(\w+\.)?{name}\b|except (\w+\.)?{name}\b|error = \"{name}\""
        assert re.search(named, text), f"no test expects {name}"
    assert re.search(r"warns\(\s*(\w+\.)?SaturationWarning\b", text)


def test_every_error_is_drawn_in_the_tree() -> None:
    for name, cls in vars(errors).items():
        if isinstance(cls, type) and issubclass(cls, Exception) and not issubclass(cls, Warning):
            assert re.search(rf"\b{name}\b", errors.__doc__), f"{name} is not in the tree of errors"
            assert issubclass(cls, errors.FewbitsError)
            assert getattr(fewbits, name) is cls


HEADER = re.sub(r"/\*.*?\*/", "", document("native/fewbits.h"), flags=re.DOTALL)


def enumeration(name: str) -> dict[str, int]:
    body = re.search(rf"enum {name} \{{(.*?)\}}", HEADER, re.DOTALL).group(1)
    pairs = re.findall(r"FEWBITS_(\w+)\s*=\s*(\d+)", body)
    return {key: int(value) for key, value in pairs}


def definition(name: str) -> int:
    return int(re.search(rf"#define FEWBITS_{name} (\d+)", HEADER).group(1))


def test_numbers_of_the_c_header_are_pythons() -> None:
    assert definition("ABI") == _native.ABI
    for name in ("MAX_DIMENSIONS", "MAX_STAGES", "MAX_SECTIONS", "MAX_PARAMETERS"):
        assert definition(name) == getattr(_native, name)

    formats = {format.name.upper(): format.code for format in FORMATS}
    assert enumeration("fewbits_dtype") == formats
    types = {f"PARAMETER_{kind.name}": kind.value for kind in ParameterType}
    assert enumeration("fewbits_parameter_type") == types
    assert enumeration("fewbits_rounding") == {"STOCHASTIC": 0, "NEAREST": 1}


def test_status_numbers_of_the_c_header_are_pythons() -> None:
    from fewbits.wire import frame

    status = enumeration("fewbits_status")
    for name in ("OK", "BAD_PADDING", "BAD_CODE", "BAD_SIGN"):
        assert getattr(_native, name) == status[name]
    reader = {value for name, value in status.items() if name.startswith("FRAME_")}
    # The version and the limit have error classes of their own.
    special = {status["FRAME_VERSION"], status["FRAME_ELEMENTS"]}
    assert set(frame._MESSAGES) == reader - special
    for number in sorted(reader):
        assert isinstance(frame._refusal(number, (1, 2)), fewbits.DecodeError)
    assert type(frame._refusal(status["FRAME_VERSION"], (1, 2))) is fewbits.VersionError
    assert type(frame._refusal(status["FRAME_ELEMENTS"], (1, 2))) is fewbits.LimitError


def test_structures_have_the_size_that_c_gives_them() -> None:
    """Laid out by hand from the header: natural alignment, in the header's order."""
    import ctypes

    assert native_rows.NATIVE_ROW.itemsize == 8 + 8 * 3 + 16 + 8 + 8 + 16 + 24 + 24 + 16
    assert ctypes.sizeof(_native.ParameterRecord) == 19
    frame = 8 + 2 * 8 + 8 * 32 + 8 + 8 * 16 + 8 * 16 + 4 + 19 * 32
    assert ctypes.sizeof(_native.Frame) == (frame + 7) // 8 * 8
    assert frames._TAIL.size == 3 * 8 + 2 * 8 + 8  # of a recipe, behind its row
    assert frames._MESSAGE.size == 8 + 8 + 16 + 8 + 8 + 16


def test_files_that_native_comments_name_exist() -> None:
    for path in sorted((ROOT / "native").rglob("*.*")):
        for name in re.findall(r"\b(?:src|docs)/[\w/]+\.\w+", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path.relative_to(ROOT)} names {name}"


def test_every_planted_fault_can_be_planted() -> None:
    faults = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())["mutant"]
    assert len({fault["name"] for fault in faults}) == len(faults)
    for fault in faults:
        for change in fault["change"]:
            text = (ROOT / change["file"]).read_text()
            assert text.count(change["find"]) == 1, fault["name"]


def test_every_fuzz_target_is_built() -> None:
    targets = re.search(r"foreach\(target ([^)]+)\)", document("CMakeLists.txt"))
    assert targets
    sources = (ROOT / "tests" / "fuzz" / "native").glob("*.cpp")
    assert targets.group(1).split() == sorted(path.stem for path in sources)
