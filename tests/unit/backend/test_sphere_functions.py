"""What native code of the spherical operator is given stays there until it has ended."""

import ctypes
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fewbits
from fewbits.backend import sphere_functions
from fewbits.reference import directions


def test_a_table_of_its_own_lives_as_long_as_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that make the table at once have one each, and only the last one is kept."""
    made: list[weakref.ref[Any]] = []
    alive: list[bool] = []
    table = directions.normal_table()

    def anew() -> np.ndarray:
        own = table.copy()
        made.append(weakref.ref(own))
        return own

    def watched(name: str) -> Any:
        call = getattr(sphere_functions._core, f"fewbits_spherical_{name}")

        def run(_: int, *arguments: Any) -> int:
            alive.append(made[-1]() is not None)
            return int(call(ctypes.c_void_p(table.ctypes.data), *arguments))  # never a freed one

        return run

    x = np.random.default_rng(3).standard_normal(2000, dtype=np.float32)
    expected = fewbits.compress(x, "spherical", seed=3, threads=1)
    core = {f"fewbits_spherical_{name}": watched(name) for name in ("encode", "decode")}
    live = sphere_functions._core.fewbits_spherical_live
    rice = sphere_functions._core.fewbits_rice_append
    core |= {"fewbits_spherical_live": live, "fewbits_rice_append": rice}
    monkeypatch.setattr(sphere_functions, "_core", SimpleNamespace(**core))
    monkeypatch.setattr(sphere_functions, "normal_table", anew)
    frame = fewbits.compress(x, "spherical", seed=3, threads=1)
    assert frame == expected
    fewbits.decompress(frame, threads=1)
    assert len(alive) >= 2
    assert all(alive)
