"""Values that a spec names, such as `ef14:momentum=0.9`: a name and the fields that it sets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from fewbits.core import parameters
from fewbits.errors import SpecError


@dataclass(frozen=True, slots=True)
class Spelled:
    """A value with a text form; its fields are its parameters."""

    name: ClassVar[str]

    @property
    def spec(self) -> str:
        """The canonical text form: defaults omitted, fields in order, shortest numbers."""
        fields = parameters.to_text(self)
        return f"{self.name}:{fields}" if fields else self.name

    def __str__(self) -> str:
        return self.spec


Own = TypeVar("Own", bound=Spelled)


def spelled(spec: object, kind: type[Own], classes: Mapping[str, type[Own]], what: str) -> Own:
    """The value of one of the classes that a spec names, or the value itself."""
    if isinstance(spec, kind):
        return spec
    if not isinstance(spec, str):
        first = next(iter(classes))
        raise SpecError(f"{what} is a name such as {first!r}, got {type(spec).__name__}")
    name, _, fields = (part.strip() for part in spec.partition(":"))
    if name not in classes:
        *others, last = classes
        raise SpecError(f"{what} must be {', '.join(others)} or {last}, got {spec!r}")
    return classes[name](**parameters.from_text(classes[name], fields))
