"""Numbers with units: what is understood, and one line about what is not."""

import math

import pytest

from fewbits.errors import SpecError
from fewbits.theory import quantities


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1Gbit", 1e9),
        ("1 Gbit/s", 1e9),
        ("2.5Gbit", 2.5e9),
        ("100Mbit", 1e8),
        ("56kbit/s", 56e3),
        ("1e9bit", 1e9),
        ("125MB/s", 1e9),
        ("125mB/s", 1e9),
        ("100mbit", 1e8),
        ("100MBit/s", 1e8),
        ("100Mbps", 1e8),
        ("100mbps", 1e8),
        ("100 Mb/s", 1e8),
        ("1gbit", 1e9),
        ("10Gbps", 1e10),
        ("12.5 MBps", 1e8),
    ],
)
def test_bandwidths_are_bits_per_second(text: str, value: float) -> None:
    assert quantities.bits_per_second(text) == value


def test_a_link_to_emulate_has_a_rate_that_a_step_can_wait_for() -> None:
    assert quantities.link_rate("100mbit") == 1e8
    assert quantities.link_rate("none") is None
    with pytest.raises(SpecError, match="at least 100kbit"):
        quantities.link_rate("56kbit")


@pytest.mark.parametrize(
    ("text", "value"),
    [("5ms", 0.005), ("0.2s", 0.2), ("80us", 8e-5), ("80 µs", 8e-5), (".5 s", 0.5), ("0s", 0.0)],
)
def test_times_are_seconds(text: str, value: float) -> None:
    assert quantities.seconds(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), ("25e6", 25_000_000), ("2.01M", 2_010_000), ("1.3G", 1_300_000_000)],
)
def test_counts_are_whole(text: str, value: int) -> None:
    assert quantities.count(text) == value


NONSENSE = [
    "",
    "x",
    "1Gbot",
    "Gbit",
    "1",
    "nan",
    "inf",
    "1 2Gbit",
    "1mBPS",
    "1Mbit/h",
    "--1Gbit",
    "1MB",
    "٣Gbit",
]


@pytest.mark.parametrize("text", NONSENSE)
def test_other_bandwidths_are_refused_with_what_was_given(text: str) -> None:
    with pytest.raises(SpecError, match="expected a bandwidth such as 1Gbit") as caught:
        quantities.bits_per_second(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["0Gbit", "-1Gbit"])
def test_a_bandwidth_must_be_above_zero(text: str) -> None:
    with pytest.raises(SpecError, match="must be above 0"):
        quantities.bits_per_second(text)


@pytest.mark.parametrize("text", ["5", "5mss", "5Ms", "s", "5 m"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="expected a time such as 5ms"):
        quantities.seconds(text)
    with pytest.raises(SpecError, match="must not be negative"):
        quantities.seconds("-5ms")


@pytest.mark.parametrize("text", ["0", "-3", "1.5", "1e-3", "25X", "many"])
def test_other_counts_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="whole number"):
        quantities.count(text)


@pytest.mark.parametrize("text", ["1e400", "1e999999999999999999", "1e308G"])
def test_what_no_float_holds_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="too large"):
        quantities.count(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.23e9, "1.2 Gbit/s"),
        (999.6e6, "1 Gbit/s"),
        (48e6, "48 Mbit/s"),
        (3.0, "3 bit/s"),
        (2.4e13, "24000 Gbit/s"),
        (math.inf, "any"),
        (0.0, "0 bit/s"),
    ],
)
def test_rates_are_shown_with_two_digits(value: float, text: str) -> None:
    assert quantities.rate_text(value) == text
