"""Tables of kernels that leave kernels out."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_what_a_table_leaves_out_is_the_next_lower_tables(tmp_path: Path) -> None:
    """The dispatcher, linked with tables whose kernels tell whose they are."""
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path / "tables"
    sources = [ROOT / "tests" / "native" / "tables.cpp", ROOT / "native" / "dispatch.cpp"]
    options = ["-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{ROOT / 'native'}"]
    # Neither the compiler nor the program is to run with the sanitizers of the suite.
    unwanted = {"FEWBITS_SIMD", "LD_PRELOAD"}
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    subprocess.run([compiler, *options, *sources, "-o", program], env=environment, check=True)
    subprocess.run([program], env=environment, check=True)
