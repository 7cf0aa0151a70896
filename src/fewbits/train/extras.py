"""Optional packages: imported when they are needed, and named when they are missing."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from fewbits.errors import MissingExtraError


def require(module: str, extra: str = "torch", *, package: str | None = None) -> ModuleType:
    """The module, or a `MissingExtraError` that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(package or module.partition(".")[0], extra) from error


def check_installed(package: str, extra: str = "torch") -> None:
    """Raise the same error as `require`, without importing the package."""
    if find_spec(package) is None:
        raise _missing(package, extra)


def _missing(package: str, extra: str) -> MissingExtraError:
    return MissingExtraError.of(f"this needs {package}", extra)
