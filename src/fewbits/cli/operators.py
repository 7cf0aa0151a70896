"""`fewbits operators`: lists the operators with their guarantees and measured sizes."""

import argparse
import dataclasses
import math
from typing import Any

import numpy as np

import fewbits
from fewbits import registry
from fewbits.cli.console import Parser, print_json, table
from fewbits.core import parameters
from fewbits.core.component import Component
from fewbits.presets import PRESETS

_ELEMENTS = 2**16


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits operators")


def run(options: argparse.Namespace) -> None:
    values = np.random.default_rng(0).standard_normal(_ELEMENTS, np.float32)
    found = [_described(cls, values) for cls in registry.catalogue().classes().values()]
    if options.json:
        named = {name: dataclasses.asdict(preset) for name, preset in PRESETS.items()}
        print_json(
            {"elements": _ELEMENTS, "dtype": "float32", "operators": found, "presets": named}
        )
        return
    rows = [
        (
            spec["spec"],
            _guarantee_text(spec),
            f"{spec['bits_per_value']:.3f}",
            operator["summary"] if place == 0 else "",
        )
        for operator in found
        for place, spec in enumerate(operator["specs"])
    ]
    print(table(("spec", "guarantee", "bits/value", "what it does"), rows, right="bits/value"))
    print()
    for operator in found:
        for parameter in operator["parameters"]:
            print(f"{operator['name']}: {_parameter_text(parameter)}")
    for name, preset in PRESETS.items():
        memory = "" if preset.feedback is None else f" with {preset.feedback}"
        print(f"preset {name}: {preset.operator}{memory}, {preset.summary}")
    print("ω: unbiased, E‖C(x)-x‖² ≤ ω‖x‖²; α: ≤ α‖x‖², 'surely' where without expectation")
    print(f"bits/value: whole frame, measured on {_ELEMENTS:,} Gaussian float32 values")


def _described(cls: type[Component], values: np.ndarray) -> dict[str, Any]:
    """One operator: its parameters, and guarantee and size for each of its example specs."""
    fields = parameters.fields(cls)
    return {
        "name": cls.name,
        "code": cls.code,
        "summary": (cls.__doc__ or "").strip().splitlines()[0],
        "parameters": [
            {
                "name": field.name,
                "type": field.type.name.lower(),
                "choices": list(field.choices),
                "default": _json_default(field.default),
            }
            for field in fields
        ],
        "specs": [_measured(spec, values) for spec in registry.example_specs(cls, values.size)],
    }


def _json_default(default: Any) -> Any:
    """JSON has no infinity; a spec spells it `inf`."""
    if default == math.inf:
        return "inf"
    return None if default is dataclasses.MISSING else default


def _measured(spec: str, values: np.ndarray) -> dict[str, Any]:
    chosen = fewbits.operator(spec)
    guarantee = chosen.guarantee(values.size)
    return {
        "spec": chosen.spec,
        "omega": guarantee.omega,
        "alpha": guarantee.alpha,
        "sure": guarantee.sure,
        "bits_per_value": 8 * len(fewbits.compress(values, chosen, seed=0)) / values.size,
    }


def _guarantee_text(spec: dict[str, Any]) -> str:
    if spec["omega"] is not None:
        return f"ω = {spec['omega']:.4g}"
    return f"α = {spec['alpha']:.4g}{' surely' if spec['sure'] else ''}"


def _parameter_text(parameter: dict[str, Any]) -> str:
    choices = "|".join(map(str, parameter["choices"])) or parameter["type"]
    default = parameter["default"]
    return (
        f"{parameter['name']}={choices} ({'required' if default is None else f'default {default}'})"
    )
