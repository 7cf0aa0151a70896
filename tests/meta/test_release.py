"""What a release holds: one version, files for people who take part, a recipe that agrees."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from soaking import versions

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_conda_recipe_says_what_the_project_says() -> None:
    text = (ROOT / "conda" / "meta.yaml").read_text()
    (version,) = re.findall(r'set version = "([^"]+)"', text)
    recipe = yaml.safe_load(
        re.sub(r"{{[^}]*}}", "made", re.sub(r"{%.*%}", "", text)).replace("made", '"made"', 1)
    )
    assert version == PROJECT["version"]
    run = recipe["requirements"]["run"]
    assert f"python {PROJECT['requires-python']}" in run
    assert [own.replace(">=", " >=") for own in PROJECT["dependencies"]] == run[1:]
    extras = PROJECT["optional-dependencies"]
    (torch,) = [own for own in extras["torch"] if own.startswith("torch")]
    wanted = [torch.replace("torch>=", "pytorch >="), extras["flower"][0].replace(">=", " >=")]
    assert recipe["requirements"]["run_constrained"] == wanted
    assert recipe["about"]["summary"] == PROJECT["description"]
    (name, entry) = next(iter(PROJECT["scripts"].items()))
    assert recipe["build"]["entry_points"] == [f"{name} = {entry}"]


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md")))
def test_templates_have_a_name_and_a_purpose(path: Path) -> None:
    _, head, body = path.read_text().split("---\n", 2)
    about = yaml.safe_load(head)
    assert about["name"]
    assert about["about"]
    assert body.strip()


def test_the_package_is_typed_and_the_build_asks_for_a_compiler_in_one_line() -> None:
    assert (ROOT / "src" / "fewbits" / "py.typed").exists()
    text = (ROOT / "CMakeLists.txt").read_text()
    first = re.search(r"^  message\(FATAL_ERROR \"(.*)\"\)$", text, re.MULTILINE)
    assert first
    assert first[1] == "fewbits needs a C++20 compiler, or install a wheel"
    assert text.index("check_language(CXX)") < text.index("enable_language(CXX)")


def test_the_pythons_that_are_named_are_those_that_the_stage_versions_runs() -> None:
    classified = [own.rpartition(" ")[2] for own in PROJECT["classifiers"] if ":: 3." in own]
    assert tuple(classified) == versions.PYTHONS
    assert PROJECT["requires-python"] == f">={versions.PYTHONS[0]}"
    said = (ROOT / "docs" / "stability.md").read_text()
    (row,) = re.findall(r"^\| Python, the core \| (.*) \|$", said, re.MULTILINE)
    assert tuple(re.findall(r"`([^`]+)`", row)) == versions.PYTHONS
    (lower,) = [own for own in PROJECT["dependencies"] if own.startswith("numpy")]
    assert versions.NUMPYS["oldest"] == f"{lower.replace('>=', '==')}.*"
