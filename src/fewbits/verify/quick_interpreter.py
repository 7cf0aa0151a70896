"""Triton's interpreter without its most expensive habits.

It puts its own functions into the language when a kernel starts, and again for each function that
the kernel calls, which takes half of the time. Once for each kernel and module is enough. And it
makes a table of all types to look up one. What kernels compute is the same; where the interpreter
is made otherwise, nothing is changed.
"""

import inspect
from typing import Any


def install() -> None:
    """Patch once, until the kernel has ended; remember the types."""
    # Not Triton itself: it decides how it runs kernels when it is imported.
    from fewbits.backend.device.language import triton

    interpreter: Any = triton.runtime.interpreter
    original = getattr(interpreter, "_patch_lang", None)
    scope_of = getattr(interpreter, "_LangPatchScope", None)
    if original is None or scope_of is None or hasattr(original, "is_quick"):
        return
    _remember_types(interpreter)
    patched: dict[frozenset[int], Any] = {}
    used: dict[int, tuple[Any, frozenset[int]]] = {}  # modules of the language, by globals

    def patch(function: Any) -> Any:
        names = function.__globals__
        if id(names) not in used:
            modules = interpreter.tl, interpreter.tl.core
            seen = (own for own in names.values() if inspect.ismodule(own))
            used[id(names)] = names, frozenset(id(own) for own in seen if own in modules)
        known = used[id(names)][1]
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


def _remember_types(interpreter: Any) -> None:
    original = getattr(interpreter, "_get_np_dtype", None)
    if original is None:
        return
    known: dict[str, Any] = {}

    def remembered(own: Any) -> Any:
        name = own.scalar.name
        found = known.get(name)
        if found is None:
            found = known[name] = original(own)
        return found

    interpreter._get_np_dtype = remembered
