"""What must hold of the tree: sizes, names, and who may use whom.

`pyproject.toml` has the layers as contracts for import-linter; what it cannot see is here.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from fewbits import session

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fewbits"
LIBRARY = sorted(PACKAGE.rglob("*.py"))
LABORATORY = sorted((ROOT / "lab" / "src").rglob("*.py"))
ADAPTERS = ("ddp", "fsdp", "localsgd", "flower")
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (*LIBRARY, *LABORATORY)}


def nodes(*kinds: type[ast.AST], of: list[Path]) -> Iterator[tuple[str, ast.AST]]:
    """All nodes of some kinds, with the file that each is in."""
    for path in of:
        name = path.relative_to(ROOT).as_posix()
        yield from ((name, node) for node in ast.walk(TREES[path]) if isinstance(node, kinds))


def length(node: ast.AST) -> int:
    assert isinstance(node, ast.stmt)
    return (node.end_lineno or node.lineno) - node.lineno + 1


def imports(path: Path) -> Iterator[str]:
    """Full names of all that a file imports, also inside of functions."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by dots"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_class_of_the_library_is_longer_than_250_lines() -> None:
    long = [
        f"{name}: {node.name} has {length(node)} lines"
        for name, node in nodes(ast.ClassDef, of=LIBRARY)
        if isinstance(node, ast.ClassDef) and length(node) > 250
    ]
    assert not long, long


def test_nineteen_functions_in_twenty_have_at_most_30_lines() -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    for files in (LIBRARY, LABORATORY):
        lengths = sorted(length(node) for _, node in nodes(*kinds, of=files))
        assert lengths[len(lengths) * 95 // 100] <= 30


@pytest.mark.parametrize("path", LABORATORY, ids=lambda path: path.name)
def test_files_of_the_laboratory_have_at_most_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_only_the_backend_knows_ctypes() -> None:
    users = {path.relative_to(PACKAGE).parts[0] for path in LIBRARY if "ctypes" in imports(path)}
    users |= {path.name for path in LABORATORY if "ctypes" in imports(path)}
    assert users == {"backend"}


def test_the_library_never_imports_the_laboratory() -> None:
    for path in LIBRARY:
        assert not [name for name in imports(path) if name.startswith("fewbits_lab")], path


def test_no_file_has_a_name_that_says_nothing() -> None:
    useless = {"utils.py", "helpers.py", "misc.py", "base.py", "common.py"}
    assert not [path for path in TREES if path.name in useless]


def test_the_session_has_fewer_than_twelve_public_methods() -> None:
    found = [
        node
        for _, node in nodes(ast.ClassDef, of=LIBRARY)
        if isinstance(node, ast.ClassDef) and node.name == "Session"
    ]
    assert len(found) == 1
    methods = [own.name for own in found[0].body if isinstance(own, ast.FunctionDef)]
    assert len([name for name in methods if not name.startswith("_")]) < 12


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_adapters_use_public_names_of_the_session_and_subclass_nothing_of_it(adapter: str) -> None:
    for path in sorted((PACKAGE / adapter).rglob("*.py")):
        used = [name for name in imports(path) if name.startswith("fewbits.session")]
        shared = {name.removeprefix("fewbits.session.") for name in used}
        assert shared <= set(session.__all__), path
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).partition(".")[0] for base in node.bases}
                assert not bases & shared - VALUES, f"{path}: {node.name} subclasses {bases}"
            if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
                owner = ast.unparse(node.value).rpartition(".")[2]
                assert owner not in (shared | SESSIONS), f"{path}: {ast.unparse(node)}"


SESSIONS = {"session", "_session"}  # what an adapter calls the one that it owns
VALUES = {"MeanOptions", "Options", "Report"}  # records that adapters extend by fields of their own


def public_names() -> dict[str, set[str]]:
    """Classes, constants and aliases by name, each with the files that define it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in TREES.items():
        file = path.relative_to(ROOT).as_posix()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(file)
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                for name in names:
                    if isinstance(name, ast.Name) and name.id[0].isupper():
                        found[name.id].add(file)
    return {name: files for name, files in found.items() if not name.startswith("_")}


def test_a_public_class_or_constant_name_is_used_once() -> None:
    twice = {name: sorted(files) for name, files in public_names().items() if len(files) > 1}
    assert not twice, twice
