"""The page on when not to compress: every link and every contender of the race was measured."""

import pytest

from fewbits_lab.results import results
from fewbits_lab.studies.links import show as links_show
from fewbits_lab.studies.links import text as links_text

LINKS = {(rate, ranks) for rate in (1e8, 1e9, 1e10, None) for ranks in (2, 4)}

WITH_RATES_OF_PLAIN = {"fp16-hook", "bfloat16"}  # casts, which change next to nothing


def test_every_link_was_measured_with_enough_rounds() -> None:
    found = links_text.settings()
    assert {(own["rate_bits_per_second"], own["ranks"]) for own in found} == LINKS
    for own in found:
        assert own["repeats"] >= 7
        assert all(row.get("replicas_agree") is not False for row in own["contenders"])


def test_the_race_was_run_by_all_with_the_same_grid() -> None:
    found = results("time-to-accuracy")
    race = [(run["name"], run["seed"]) for run in found["runs"] if run["part"] == "race"]
    names = {name for name, _ in race}
    assert {"none", "fp16-hook", "powersgd:rank=4", "tiny"} <= names
    assert sorted(race) == [(name, seed) for name in sorted(names) for seed in range(3)]
    tuned = {(run["name"], run["lr"]) for run in found["runs"] if run["part"] == "tune"}
    for name in names - WITH_RATES_OF_PLAIN:
        assert {lr for own, lr in tuned if own == name} == set(found["rates"])


def linked(rates: tuple[float, ...], steps: dict[str, tuple[float, float]]) -> list[dict]:
    """Links on which a step takes `own` seconds and so many bits on the wire."""
    return [
        {
            "rate_bits_per_second": rate,
            "ranks": 2,
            "contenders": [
                {
                    "contender": name,
                    "step_seconds": {"median": own + bits / rate},
                    "samples": [share * (own + bits / rate) for share in (0.9, 1.0, 1.1)],
                }
                for name, (own, bits) in steps.items()
            ],
        }
        for rate in rates
    ]


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (6e9, "at 4.0 Gbit/s"),  # a second less at once, four gigabits less to send
        (2e10, "nowhere between the measured links"),  # more to send, and slower on every link
    ],
)
def test_choices_cross_where_both_take_the_same_time(
    monkeypatch: pytest.MonkeyPatch, bits: float, said: str
) -> None:
    steps = {"none": (1.0, 1e10), "natural": (2.0, bits)}
    made = linked((1e8, 1e9, 1e10), steps)
    monkeypatch.setattr(links_text, "settings", lambda: made)
    assert links_text.crossing(2, "none", "natural") == said


def test_auto_is_compared_with_plain_only_where_nothing_is_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = dict.fromkeys((*links_show.AUTO_FROM, "auto"), (1.0, 1000000000.0))
    faster = linked((1e8,), steps | {"none": (2.0, 1e9)})
    monkeypatch.setattr(links_text, "settings", lambda: faster)
    assert "best at: none of them." in " ".join(links_text.auto_verdict().split())
    slower = linked((1e10,), steps | {"none": (0.4, 1e9), "auto": (0.45, 1e9)})
    monkeypatch.setattr(links_text, "settings", lambda: slower)
    said = " ".join(links_text.auto_verdict().split())
    assert "by +10 %" in said
    # Rounds differ by a tenth, but steps of the same round by a tenth of half a second always.
    assert "on 0 more the steps do not tell them apart" in said


def test_steps_of_the_same_round_are_compared() -> None:
    gaps = [0.01, 0.03, 0.02]
    rounds = [1.0, 5.0, 2.0]
    slow = {"contender": "auto", "samples": [a + b for a, b in zip(rounds, gaps, strict=True)]}
    fast = {"contender": "none", "samples": rounds, "step_seconds": {"median": 2.0}}
    low, high = links_text.behind({"contenders": [slow, fast]}, "auto", "none")
    # Mean 0.02, standard error 0.01 / sqrt(3), and 4.303 of these at two degrees of freedom.
    assert (low, high) == pytest.approx(((0.02 - 0.02484) / 2, (0.02 + 0.02484) / 2), abs=1e-5)
