"""Triton's interpreter without its most expensive habit: patching its language at every call.

It puts its own functions into the language when a kernel starts, and again for each function that
the kernel calls, which takes half of the time. Once for each kernel and module is enough. Where the
interpreter is made otherwise, nothing is changed.
"""

import inspect
from typing import Any

from triton.runtime import interpreter


def install() -> None:
    """Patch once, until the kernel has ended."""
    original = getattr(interpreter, "_patch_lang", None)
    scope_of = getattr(interpreter, "_LangPatchScope", None)
    if original is None or scope_of is None or hasattr(original, "is_quick"):
        return
    patched: dict[frozenset[int], Any] = {}

    def patch(function: Any) -> Any:
        modules = interpreter.tl, interpreter.tl.core
        seen = (own for own in function.__globals__.values() if inspect.ismodule(own))
        known = frozenset(id(own) for own in seen if own in modules)
        if known in patched:
            return scope_of()
        is_kernel, scope = not patched, original(function)
        patched[known] = scope
        if is_kernel:
            restore = scope.restore

            def end() -> None:
                patched.clear()
                restore()

            scope.restore = end
        return scope

    patch.is_quick = True  # type: ignore[attr-defined]
    interpreter._patch_lang = patch
