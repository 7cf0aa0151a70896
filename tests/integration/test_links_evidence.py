"""The page on when not to compress: every link and every contender of the race was measured."""

from benchmarks.rendered import when_not
from benchmarks.rendered.blocks import results

LINKS = {(rate, ranks) for rate in (1e8, 1e9, 1e10, None) for ranks in (2, 4)}


def test_every_link_was_measured_with_enough_rounds() -> None:
    found = when_not.settings()
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
    for name in names - when_not.WITH_RATES_OF_PLAIN:
        assert {lr for own, lr in tuned if own == name} == set(found["rates"])
