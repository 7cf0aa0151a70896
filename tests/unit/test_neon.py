"""The NEON table, cross-compiled and emulated: every kernel gives the bits of the portable one."""

import re
from pathlib import Path

import pytest

import aarch64

pytestmark = pytest.mark.skipif(bool(aarch64.missing()), reason=aarch64.missing() or "all there")

# The groups of kernels.h, by what their checks are named.
GROUPS = 14


def test_every_kernel_gives_the_portable_tables_bits(tmp_path: Path) -> None:
    text = aarch64.emulated(aarch64.build_kernels(tmp_path), "1", "70000")
    found = re.fullmatch(r"neon tables=2 kernels=(\d+) compared=(\d+)\n", text)
    assert found is not None, text
    kernels, compared = map(int, found.groups())
    assert kernels > 3 * GROUPS
    assert compared >= 301 * kernels
