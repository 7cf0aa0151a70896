"""Kernels are interpreted here: Triton must know that when it is first imported."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

from fewbits.verify import quick_interpreter

quick_interpreter.install()
