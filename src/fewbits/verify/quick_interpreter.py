"""Triton's interpreter without its most expensive habits.

It puts its own functions into the language when a kernel starts, and again for each function that
the kernel calls, which takes half of the time. Once for each kernel and module is enough. It makes
a table of all types to look up one. And it makes the shape of every tensor anew, though a kernel
has a handful of them, and compares them number by number. What kernels compute is the same; where
the interpreter is made otherwise, nothing is changed.
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
    _share_shapes(interpreter.tl.core)
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


def _share_shapes(core: Any) -> None:
    """Let equal types of blocks, and tensors of them, have one shape, which then equals itself."""
    names = "block_type", "tensor", "tuple", "constexpr"
    if not all(hasattr(core, name) for name in names):
        return
    make_type, make_tensor = core.block_type.__init__, core.tensor.__init__
    are_equal, true = core.tuple.__eq__, core.constexpr(True)
    shapes: dict[tuple[int, ...], Any] = {}
    types: dict[tuple[str, int], dict[str, Any]] = {}  # what they hold, by element and shape
    parts: dict[int, tuple[Any, Any]] = {}  # shape and size of tensors, by the shape of their type

    def new_type(self: Any, element: Any, shape: Any) -> None:
        known = types.get((element.name, id(shape)))  # a shape that is known is never freed
        if known is not None:
            self.__dict__.update(known)
            return
        make_type(self, element, shape)
        self.shape = shapes.setdefault(tuple(self.shape), self.shape)
        types[element.name, id(self.shape)] = dict(self.__dict__)

    def new_tensor(self: Any, handle: Any, own: Any) -> None:
        known = parts.get(id(own.shape)) if own.is_block() else None
        if known is None:
            make_tensor(self, handle, own)
            if own.is_block() and shapes.get(tuple(own.shape)) is own.shape:
                parts[id(own.shape)] = self.shape, self.numel
            return
        self.handle, self.type, self.dtype = handle, own, own.scalar
        self.shape, self.numel = known

    def equal(self: Any, other: Any) -> Any:
        return true if self is other else are_equal(self, other)

    core.block_type.__init__, core.tensor.__init__ = new_type, new_tensor
    core.tuple.__eq__ = equal
