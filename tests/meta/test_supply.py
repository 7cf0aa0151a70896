"""What a build takes in and what a wheel says of itself."""

import io
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import reproducible

ROOT = Path(__file__).parents[2]
FOLDERS = {"fewbits": ROOT, "fewbits-lab": ROOT / "lab"}
needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
LOCK = (ROOT / "build-tools.lock").read_text(encoding="utf-8")

# Imports nothing but NumPy and the standard library, and works.
ALONE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"numpy", "fewbits", *sys.stdlib_module_names}:
            raise ImportError(f"{name} is not needed")

import numpy as np
sys.meta_path.insert(0, Refuse())
import fewbits
x = np.linspace(-3, 3, 1001, dtype=np.float32)
y = fewbits.decompress(fewbits.compress(x, SPEC, seed=1))
assert 0 < np.abs(y - x).max() <= np.abs(x).max()
"""


def plain(name: str) -> str:
    """A package's name as indexes compare it, without extras and bounds."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=~! ;]", name)[0]).lower()


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def locked(text: str) -> dict[str, tuple[str, int]]:
    """Version and number of hashes by name."""
    entries = re.split(r"\n(?=[\w])", text)
    found = (re.match(r"([\w.-]+)==(\S+)", entry) for entry in entries)
    return {
        plain(match[1]): (match[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)))
        for entry, match in zip(entries, found, strict=True)
        if match
    }


@pytest.mark.parametrize("name", FOLDERS)
def test_the_bill_of_materials_is_that_of_the_package(name: str) -> None:
    bill = json.loads((FOLDERS[name] / "sbom.cdx.json").read_text(encoding="utf-8"))
    metadata = project(FOLDERS[name])["project"]
    own = bill["metadata"]["component"]
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert (own["name"], own["version"]) == (metadata["name"], metadata["version"])
    assert own["purl"] == own["bom-ref"] == f"pkg:pypi/{name}@{metadata['version']}"
    outside = {one["name"] for one in bill["components"] if "purl" in one}
    assert outside == {plain(one) for one in metadata["dependencies"]}
    inside = [one for one in bill["components"] if "purl" not in one]
    assert all(one["version"] == metadata["version"] for one in inside)
    known = {own["bom-ref"], *(one["bom-ref"] for one in bill["components"])}
    for entry in bill["dependencies"]:
        assert {entry["ref"], *entry["dependsOn"]} <= known
    assert "timestamp" not in bill["metadata"]  # the same bytes in every build
    assert "serialNumber" not in bill


@pytest.mark.parametrize("name", FOLDERS)
def test_the_bill_of_materials_is_installed(name: str) -> None:
    """In the folder that PEP 770 names."""
    bill = distribution(name).read_text(f"sboms/{name}.cdx.json")
    assert bill == (FOLDERS[name] / "sbom.cdx.json").read_text(encoding="utf-8")


def test_what_builds_is_locked_by_hash() -> None:
    versions = locked(LOCK)
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {plain(line): line.partition("==")[2] for line in constraints}
    assert versions
    for name, (version, hashes) in versions.items():
        assert version == pinned[name]
        assert hashes, f"{name} has no hash"
    for folder in FOLDERS.values():
        assert {
            plain(one) for one in project(folder)["build-system"]["requires"]
        } <= versions.keys()
    assert {"cmake", "ninja"} <= versions.keys()
    assert "://" not in LOCK


def test_the_lock_is_closed() -> None:
    """What a locked package needs here is locked too: it is installed without looking further."""
    names = locked(LOCK).keys()
    for name in names:
        for text in distribution(name).requires or ():
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert plain(need.name) in names, f"{name} needs {need.name}"


@pytest.mark.parametrize("file", ["Makefile", ".github/workflows/release.yml"])
def test_the_lock_is_used(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    uses = [line for line in text.splitlines() if "-r " in line and "build-tools.lock" in line]
    assert uses
    assert all("--require-hashes" in line and "--no-deps" in line for line in uses)
    assert "extra-index-url" not in text


def test_a_package_without_a_hash_is_seen() -> None:
    planted = re.sub(r"(?m)^ninja==.*\n(?: +--hash.*\n)+", "ninja==1.0\n", LOCK)
    assert locked(planted)["ninja"] == ("1.0", 0)
    assert locked(LOCK)["ninja"][1] > 1


@pytest.mark.parametrize("spec", ["natural", "sparse-dithering"])
def test_the_library_needs_numpy_alone(spec: str) -> None:
    assert [plain(one) for one in project(ROOT)["project"]["dependencies"]] == ["numpy"]
    code = ALONE.replace("SPEC", repr(spec))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    bad = code.replace("import fewbits\n", "import fewbits, fewbits.ddp\n", 1)
    done = subprocess.run([sys.executable, "-c", bad], capture_output=True, text=True, check=False)
    assert "torch is not needed" in done.stderr


def wheel(path: Path, *, without: str = "", **more: bytes) -> Path:
    """A wheel of the library as git holds it, less one file and with some more."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in reproducible.held(path):
            if name != without:
                archive.write(ROOT / "src" / name, name)
        for name, data in {"fewbits/libfewbits.so": b"", **more}.items():
            archive.writestr(name, data)
    return path


@needs_git
def test_a_strange_file_in_a_wheel_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "fewbits-0.1.0-py3-none-linux_x86_64.whl"
    made = {"fewbits-0.1.0.dist-info/sboms/fewbits.cdx.json": b"{}"}
    made |= {"fewbits/": b"", "fewbits/backend/": b""}  # folders, as auditwheel writes them
    assert reproducible.foreign(wheel(path, **made)) == []
    for name in ("tests/golden/good.bin", "fewbits/data.bin", "fewbits.pth"):
        assert reproducible.foreign(wheel(path, **{name: b""})) == [name]
    assert reproducible.foreign(wheel(path, without="fewbits/codec.py")) == ["fewbits/codec.py"]
    assert reproducible.foreign(
        wheel(path, without="fewbits/codec.py", **{"fewbits/codec.py": b""})
    )


@needs_git
@pytest.mark.parametrize("changed", ["", "native/frame.cpp", "tests/golden/SHA256SUMS"])
def test_a_changed_file_in_the_source_archive_is_seen(tmp_path: Path, changed: str) -> None:
    path = tmp_path / "fewbits-0.1.0.tar.gz"
    with tarfile.open(path, "w") as archive:
        for name in ("PKG-INFO", *reproducible.tracked()):
            data = b"" if name in ("PKG-INFO", changed) else (ROOT / name).read_bytes()
            member = tarfile.TarInfo(f"fewbits-0.1.0/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    assert reproducible.foreign(path) == ([changed] if changed else [])
