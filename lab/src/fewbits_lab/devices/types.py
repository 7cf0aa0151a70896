"""Types of PTX as NumPy has them."""

from typing import Any

import numpy as np

_PAIRS = {
    "bf16": "u2", "bf16x2": "u4", "f16x2": "u4", "f32x2": "u8", "s16x2": "u4", "u16x2": "u4",
}  # fmt: skip
_LETTERS = {"b": "u", "u": "u", "s": "i", "f": "f"}


def dtype(name: str) -> np.dtype[Any]:
    """The NumPy type of a PTX type; bfloat16 and pairs are their bits."""
    if name == "pred":
        return np.dtype(np.bool_)
    return np.dtype(_PAIRS.get(name) or f"{_LETTERS[name[0]]}{int(name[1:]) // 8}")
