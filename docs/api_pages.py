"""The pages of the Python API, from `__all__`, signatures and docstrings, which are Markdown."""

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

MODULES = {
    "fewbits": "vectors, frames, operators, errors",
    "fewbits.ddp": "DistributedDataParallel",
    "fewbits.fsdp": "FSDP2",
    "fewbits.localsgd": "LocalSGD and DiLoCo",
    "fewbits.huggingface": "the Trainer of Hugging Face",
    "fewbits.flower": "Flower's clients and server",
    "fewbits.policy": "which operator for which tensor",
    "fewbits.feedback": "memories, also without torch",
    "fewbits.methods": "optimisation methods over frames",
    "fewbits.report": "pages made from result files",
}
_DOCTEST = re.compile(r"^(?P<indent> *)>>> .*?(?=\n *\n|\Z)", re.DOTALL | re.MULTILINE)
INDEX = """# Python API

What is public, from the docstrings. [Versions and stability](../stability.md) says how long a name
stays. Tests run the examples.

{lines}

```{{toctree}}
:maxdepth: 1

{names}
```
"""


def index() -> str:
    """The list of modules."""
    lines = "\n".join(f"- [`{name}`]({name}.md): {what}" for name, what in MODULES.items())
    return INDEX.format(lines=lines, names="\n".join(MODULES))


def page(name: str) -> str:
    """One module: its docstring, then every public name."""
    module = importlib.import_module(name)
    parts = [f"# `{name}`", fenced(inspect.getdoc(module) or "")]
    for public in sorted(module.__all__, key=lambda own: (own[0].isupper(), own.lower())):
        parts += described(public, getattr(module, public), module)
    return "\n\n".join(part for part in parts if part) + "\n"


def described(name: str, own: Any, module: ModuleType) -> list[str]:
    """The heading, the signature and the docstring of a name, and a class's own members."""
    parts = [f"## {name}"]
    if inspect.isclass(own):
        if not issubclass(own, BaseException):
            parts.append(code(f"class {signature(name, own)}"))
        parts.append(fenced(inspect.getdoc(own) or ""))
        parts += list(members(own))
    elif callable(own) and inspect.isfunction(own):
        parts += [code(signature(name, own)), fenced(inspect.getdoc(own) or "")]
    else:
        parts.append(f"A constant of `{module.__name__}`.")
    return parts


def members(cls: type) -> Iterator[str]:
    """Public methods and properties with docstrings, in the order of the code."""
    for name, own in vars(cls).items():
        if name.startswith("_"):
            continue
        bare = own.__func__ if isinstance(own, classmethod | staticmethod) else own
        text = inspect.getdoc(bare)
        if isinstance(own, property) and text:
            yield f"**`{name}`** (property): {fenced(text)}"
        elif inspect.isfunction(bare) and bare.__doc__:
            yield f"**`{signature(name, bare)}`**"
            yield fenced(inspect.getdoc(bare) or "")


def signature(name: str, own: Any) -> str:
    """`name(arguments)` without annotations, which the docstring explains in words."""
    try:
        found = inspect.signature(own)
    except (TypeError, ValueError):
        return name
    bare = [
        argument.replace(annotation=argument.empty)
        for key, argument in found.parameters.items()
        if key not in ("self", "cls") and not key.startswith("_")
    ]
    text = str(inspect.Signature(bare))
    return f"{name}{re.sub(r'<[^>]*>', '...', text)}"


def code(text: str) -> str:
    """A block of Python."""
    return f"```python\n{text}\n```"


def fenced(text: str) -> str:
    """The docstring with its examples as blocks."""
    return _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
