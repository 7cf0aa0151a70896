"""Nothing on the wire is ever code."""

import ast
from pathlib import Path

import pytest
from launch import Launcher

import fewbits

MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
CALLS = {"eval", "exec", "compile", "__import__"}
TORCH = {"load", "save", "package", "jit"}
COLLECTIVES = {
    *("all_gather_object", "gather_object", "scatter_object_list"),
    *("broadcast_object_list", "send_object_list", "recv_object_list"),
}
ROOT = Path(fewbits.__file__).parent


def findings(tree: ast.AST) -> list[str]:
    """Every use of a way to turn bytes into code."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.partition(".")[0] in MODULES]
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            found.append(str(node.module))
        if isinstance(node, ast.Name) and node.id in CALLS:
            found.append(node.id)
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            refused = isinstance(node.value, ast.Constant) and node.value.value is False
            found += [] if refused else ["allow_pickle"]
        if isinstance(node, ast.Attribute):
            of_torch = isinstance(node.value, ast.Name) and node.value.id == "torch"
            if (of_torch and node.attr in TORCH) or node.attr in COLLECTIVES:
                found.append(node.attr)
    return found


FILES = sorted(ROOT.rglob("*.py"))


def test_there_are_files_to_look_at() -> None:
    assert len(FILES) > 30


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_package_has_no_way_to_load_code(path: Path) -> None:
    assert findings(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from marshal import loads",
        "torch.load(f)",
        "eval(text)",
        "dist.all_gather_object(a, b)",
        "dist.broadcast_object_list(a)",
        "np.load(f, allow_pickle=True)",
    ],
)
def test_the_search_finds(text: str) -> None:
    assert findings(ast.parse(text))


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
def test_a_run_loads_no_code(launcher: Launcher, collective: str) -> None:
    for result in launcher.results("audited", collective=collective):
        assert result["pickles"] == []
        assert result["inside"] == []
        assert result["heard"] == 1
        assert result["calls"] >= 4 * 2 * 2  # steps, buckets, a header and a decoding in each
