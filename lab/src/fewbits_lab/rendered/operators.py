"""Tables of all operators: words and codes from the registry, bits and speeds from results."""

from typing import Any

from fewbits import registry
from fewbits.bench.dtypes import TRELLIS_SPECS
from fewbits.core import parameters
from fewbits.core.component import Component
from fewbits.core.parameters import Field
from fewbits.core.stage import Stage
from fewbits.reference.formats import FLOAT32
from fewbits.wire.frame import ParameterType
from fewbits_lab.prose import code, table
from fewbits_lab.studies.bench_dtypes import text as dtypes_text

_ABSENT = "–"  # a figure that was not measured yet


_CODED = "the same values, levels entropy coded"


_TRELLIS_WORDS = (
    "one bit, nearest",
    "two bits, nearest",
    "one bit, unbiased",
    "two bits, unbiased",
)

VARIANTS = {
    "natural": {"natural:coder=rans": "the same values, exponents entropy coded"},
    "natural-dithering": {"natural-dithering:coder=rans": _CODED},
    "standard-dithering": {"standard-dithering:coder=rans": _CODED},
    "top-k": {"top-k:fraction=0.01|natural": "one value in a hundred"},
    "rand-k": {"rand-k:fraction=0.01|natural": "one value in a hundred"},
    "trellis": dict(zip(TRELLIS_SPECS, _TRELLIS_WORDS, strict=True)),
}


"""Specs that README shows beside those of the registry."""


def every() -> list[type[Component]]:
    """Operators and stages in the order of their codes."""
    known = registry.catalogue()
    found = {**known.by_code, **known.stage_codes}
    return [found[number] for number in sorted(found)]


def measured_spec(cls: type[Component]) -> str:
    """The spec whose figures stand for an operator."""
    return f"{cls.name}|natural" if issubclass(cls, Stage) else cls.name


def operators_table() -> str:
    """README's: a row for each, and for some variants."""
    rows = []
    for cls in every():
        spec = measured_spec(cls)
        what = cls.summary()[:1].lower() + cls.summary()[1:]
        stage = f"a stage, {code(spec)}: " if issubclass(cls, Stage) else ""
        rows.append([code(cls.name), stage + what, cls.formula, *figures(spec)])
        for variant, words in VARIANTS.get(cls.name, {}).items():
            rows.append([code(variant), words, "the same", *figures(variant)])
    titles = "operator|what it does|guarantee|bits per value|compress MB/s (× memcpy)|decompress"
    return table(f"{titles}|other dtypes, × memcpy", rows)


def figures(spec: str) -> list[str]:
    """Bits per value, the speed of both directions, and speeds on other dtypes."""
    try:
        bits = f"{dtypes_text.row(spec)['bits_per_value']:.2f}"
    except LookupError:
        return [_ABSENT] * 4
    return [bits, *dtypes_text.speeds(spec), dtypes_text.other_dtypes(spec)]


def codes_table(*, stages: bool) -> str:
    """The format's table of operators, or of stages: codes, sections and parameters."""
    rows = [
        [str(cls.code), code(cls.name), sections(cls), described(cls)]
        for cls in every()
        if issubclass(cls, Stage) == stages
    ]
    return table("code|spec name|sections|parameters", rows)


def sections(cls: type[Component]) -> str:
    """The names of its sections, for each choice that changes them."""
    layouts = [
        ", ".join(own.name for own in _part(cls, spec).layout(64, FLOAT32)) or "none"
        for spec in registry.example_specs(cls, 64)
    ]
    return "; or ".join(dict.fromkeys(layouts))


def _part(cls: type[Component], spec: str) -> Any:
    """The operator or stage of this class in a spec."""
    name, _, given = spec.partition("|")[0].partition(":")
    assert name == cls.name
    return cls(**parameters.from_text(cls, given))


def described(cls: type[Component]) -> str:
    """The parameters of an operator by their numbers."""
    own = [f"{field.number}: `{field.name}`, {_values(field)}" for field in parameters.fields(cls)]
    return "; ".join(own) or "none"


def _values(field: Field) -> str:
    if field.choices:
        return "a choice of " + ", ".join(
            f"`{choice}`" + (" (default)" if choice == field.default else "")
            for choice in field.choices
        )
    kind = "an integer" if field.type is ParameterType.INTEGER else "a float"
    if field.infinite:
        return f"{kind}, 0 for infinity (default)"
    return f"{kind} (default {field.default})"
