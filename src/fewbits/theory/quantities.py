"""Reads numbers with units, such as `1Gbit`, `5ms` or `25e6`, and refuses others in one line."""

import math
import re
import sys
from decimal import Decimal, DecimalException

from fewbits.errors import SpecError

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*", re.ASCII)
# Decimals, because 2.01 * 1e6 in floats is no whole number.
_PREFIXES = {"": Decimal(1), "k": Decimal("1e3"), "M": Decimal("1e6"), "G": Decimal("1e9")}
# As people and `tc` write them. A capital B is a byte; `mbps`, bytes for `tc`, is bits as in
# everybody else's words.
_RATES = {
    f"{prefix}{unit}": factor * bits
    for spelled, factor in _PREFIXES.items()
    for prefix in {spelled.lower(), spelled.upper()}
    for bits, units in ((1, ("bit", "Bit", "bit/s", "Bit/s", "bps", "b/s")), (8, ("B/s", "Bps")))
    for unit in units
}
_TIMES = {
    "s": Decimal(1),
    "ms": Decimal("1e-3"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),  # the micro sign
    "μs": Decimal("1e-6"),  # the Greek letter
    "ns": Decimal("1e-9"),
    "min": Decimal(60),
}
# These are far beyond real machines, and their products are finite. No model holds outside.
_MOST_COUNT, _MOST_SECONDS = 1e15, 1e9
_LEAST_RATE, _MOST_RATE = 1.0, 1e18
_LEAST_SHAPED = 1e5  # a step on a slower link takes minutes
UNSHAPED = "none"


def bits_per_second(text: str) -> float:
    """A bandwidth from 1 bit a second on: `1Gbit`, `100mbit`, `100 Mbps` or `125MB/s` (bytes)."""
    value = _parsed(text, _RATES, "a bandwidth such as 1Gbit, 100Mbit/s or 125MB/s")
    if value <= 0:
        raise SpecError(f"a bandwidth must be above 0, got {text!r}")
    if value < _LEAST_RATE:
        raise SpecError(f"{text!r} is too small: less than 1 bit a second")
    return _at_most(_MOST_RATE, value, text)


def link_rate(text: str) -> float | None:
    """The rate of a link that can be emulated, such as `100Mbit`; None for `none`, not shaped."""
    if text == UNSHAPED:
        return None
    value = bits_per_second(text)
    if value < _LEAST_SHAPED:
        raise SpecError(f"a rate must be at least 100kbit or none, got {text!r}")
    return value


def seconds(text: str) -> float:
    """A time from 0 on, such as `5ms`, `0.2s` or `80us`."""
    value = _parsed(text, _TIMES, "a time such as 5ms, 0.2s or 80us")
    if value < 0:
        raise SpecError(f"a time must not be negative, got {text!r}")
    return _at_most(_MOST_SECONDS, value, text)


def count(text: str) -> int:
    """A whole number from 1 on, such as `8`, `25e6` or `25M`."""
    value = _parsed(text, _PREFIXES, "a whole number such as 8, 25e6 or 25M")
    if value < 1 or not value.is_integer():
        raise SpecError(f"expected a whole number from 1 on, got {text!r}")
    return int(_at_most(_MOST_COUNT, value, text))


def rate_text(value: float, digits: int = 2) -> str:
    """A bandwidth for readers, by default with two digits: `1.2 Gbit/s`."""
    if value == math.inf:
        return "any"
    rounded = float(f"{value:.{digits}g}")
    prefix = next((p for p in ("G", "M", "k") if rounded >= _PREFIXES[p]), "")
    return f"{rounded / float(_PREFIXES[prefix]):.12g} {prefix}bit/s"


def _parsed(text: str, units: dict[str, Decimal], wanted: str) -> float:
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] not in units:
        raise SpecError(f"expected {wanted}, got {text!r}")
    try:
        value = float(Decimal(match[1]) * units[match[2]])
    except DecimalException:
        value = math.inf
    return _at_most(sys.float_info.max, value, text)


def _at_most(most: float, value: float, text: str) -> float:
    if value > most:
        raise SpecError(f"{text!r} is too large")
    return value
