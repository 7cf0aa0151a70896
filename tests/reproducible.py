"""Two builds from two folders give the same bytes, and the archives hold what git holds.

    python tests/reproducible.py [--keep FOLDER]

Copies of the tracked files are built twice, in folders of other names, with another umask, time
zone and hash seed, at one `SOURCE_DATE_EPOCH`, and cut off from the network where the system allows
that. Writes the SHA-256 of each archive. Takes a minute or two.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EPOCH = "1700000000"  # any second; a release takes that of its commit
PIP = (sys.executable, "-m", "pip")
BUILDS = (
    (*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "../out", ".", "./lab"),
    (sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", "../out", "."),
)
WAYS = {  # folder: umask and environment
    "one": (0o022, {"TZ": "UTC", "PYTHONHASHSEED": "1"}),
    "another/place": (0o077, {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "2", "LC_ALL": "C"}),
}
PACKAGES = {"fewbits": "src/fewbits", "fewbits_lab": "lab/src/fewbits_lab"}
# Made by the build: what the archive says of itself, and the native library.
MADE = re.compile(r"[\w.-]+\.dist-info/[\w./-]+|fewbits/(lib)?fewbits\.(so|dylib|dll)")


class DifferenceError(Exception):
    """An archive that is not what it should be; the text says which, and in what."""


def tracked() -> list[str]:
    """What git holds."""
    words = ["git", "ls-files", "-z"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name]


def alone() -> tuple[str, ...]:
    """The words that cut a program off from the network, or none where the system refuses."""
    words = ("unshare", "--map-root-user", "--net")
    if not shutil.which(words[0]):
        return ()
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return () if tried.returncode else words


def copied(tree: Path) -> Path:
    """A copy of the tracked files."""
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    return tree


def call(tree: Path, umask: int, environment: dict[str, str], *words: str | Path) -> None:
    """A build in a tree, cut off from the network where the system allows that."""
    given = os.environ | {"SOURCE_DATE_EPOCH": EPOCH} | environment
    given["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), given["PATH"]))
    done = subprocess.run(
        [*alone(), *map(str, words)], cwd=tree, env=given, umask=umask, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        said = " ".join(map(str, words[1:4]))
        raise DifferenceError(f"{said} failed:\n{done.stdout[-2000:]}")


def build(folder: Path, umask: int, environment: dict[str, str]) -> dict[str, Path]:
    """Both wheels and the source archive of a copy of the tracked files, by name."""
    tree = copied(folder / "tree")
    for words in BUILDS:
        call(tree, umask, environment, *words)
    return {path.name: path for path in sorted((folder / "out").iterdir())}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def contents(archive: Path) -> dict[str, str]:
    """The SHA-256 of each file in it; in a source archive without the first folder.

    Folders have no contents: auditwheel writes them too, other tools do not.
    """
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            files = [name for name in wheel.namelist() if not name.endswith("/")]
            return {name: digest(wheel.read(name)) for name in files}
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            data = tar.extractfile(member)
            found[member.name.partition("/")[2]] = digest(data.read()) if data else "no plain file"
    return found


def held(archive: Path) -> dict[str, str]:
    """What an archive must hold of git: all for a source archive, one package for a wheel."""
    files = {name: digest((ROOT / name).read_bytes()) for name in tracked()}
    if archive.suffix != ".whl":
        return files
    package = archive.name.partition("-")[0]
    start = f"{PACKAGES[package]}/"
    return {
        f"{package}/{name.removeprefix(start)}": sha
        for name, sha in files.items()
        if name.startswith(start)
    }


def foreign(archive: Path) -> list[str]:
    """Names of files that differ from git's, are missing, or came from elsewhere."""
    found, wanted = contents(archive), held(archive)
    made = {n for n in found if n == "PKG-INFO" or (archive.suffix == ".whl" and MADE.fullmatch(n))}
    names = (found.keys() | wanted.keys()) - (made - wanted.keys())
    return sorted(name for name in names if found.get(name) != wanted.get(name))


def check(place: Path) -> list[str]:
    """Build twice under the folder `place`; a line on each archive, or a `DifferenceError`."""
    first, second = (build(place / name, *how) for name, how in WAYS.items())
    if first.keys() != second.keys() or len(first) != 3:
        raise DifferenceError(f"not the same archives: {[*first]} and {[*second]}")
    lines = [line for name, path in first.items() for line in compared(path, second[name])]
    return [*lines, "built without a network" if alone() else "the network could not be cut off"]


def compared(first: Path, second: Path) -> list[str]:
    """A line on each of two builds of an archive, which are equal and hold what git holds."""
    ones, others, name = first.read_bytes(), second.read_bytes(), first.name
    if ones != others:
        inside = contents(first).items() ^ contents(second).items()
        raise DifferenceError(f"{name} differs between builds, in {sorted(dict(inside))}")
    if strange := foreign(first):
        raise DifferenceError(f"{name} is not what git holds, in {strange[:10]}")
    return [f"{digest(ones)}  {name}", f"{digest(others)}  {name} (again)"]


def main() -> int:
    parser = argparse.ArgumentParser(description="build twice and compare")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the builds, in a new folder"
    )
    kept = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="fewbits-builds-") as temporary:
        try:
            sys.stdout.write("\n".join([*check(kept or Path(temporary)), ""]))
        except DifferenceError as error:
            sys.stderr.write(f"not reproducible: {error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
