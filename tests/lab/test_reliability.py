"""The soak's figures: they add up on the same code, begin again on other code, and say so."""

import json
from pathlib import Path

import pytest

import soak
from fewbits_lab.results import results
from fewbits_lab.studies.reliability import run as ledger
from fewbits_lab.studies.reliability import show, text
from soaking import programs
from soaking import stage as stages
from soaking.draws import LEAST, SCORE, coarse, scores
from soaking.stage import Stage, StageError, Work, begin


def three(work: Work) -> None:
    """Parts of three."""
    while not work.over:
        work.figures["parts"] = work.figures.get("parts", 0) + 1
        work.add(min(3, work.left), f"{work.figures['parts']} parts")


def broken(work: Work) -> None:
    work.add(2)
    raise StageError("the third did not hold\nwhich is said below")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of one source, and a file for the figures."""
    (tmp_path / "code.py").write_text("x = 1\n")
    path = tmp_path / "result.json"
    path.write_text('{"stages": {}}')
    real, keep = ledger.digest, ledger.keep
    monkeypatch.setattr(ledger, "digest", lambda covers, root=tmp_path: real(covers, tmp_path))
    monkeypatch.setattr(ledger, "read", lambda path=path: json.loads(path.read_text())["stages"])
    monkeypatch.setattr(ledger, "keep", lambda name, row: keep(name, row, path))
    return tmp_path


def stage(run: object = three) -> Stage:
    return Stage("own", "R3", "what it does", "turns", 10, ("*.py",), run)


def row(place: Path) -> dict:
    return json.loads((place / "result.json").read_text())["stages"]["own"]


def test_runs_on_the_same_code_add_up(place: Path) -> None:
    for reached in (4, 8):
        assert soak.run_stage(stage(), 0.4, 1e9, fresh=False)[0]
        assert row(place)["done"] == reached
    assert row(place)["figures"]["parts"] == 4
    assert row(place)["failures"] == 0


def test_other_code_begins_again_and_is_told_until_then(place: Path) -> None:
    soak.run_stage(stage(), 0.4, 1e9, fresh=False)
    assert not ledger.old(ledger.read())
    (place / "code.py").write_text("x = 2\n")
    assert ledger.old(ledger.read()) == ["own"]
    soak.run_stage(stage(), 0.3, 1e9, fresh=False)
    assert row(place)["done"] == 3
    assert not ledger.old(ledger.read())


def test_what_is_ended_early_keeps_what_it_reached(place: Path) -> None:
    def hurried(work: Work) -> None:
        work.add(3)
        work.deadline = 0.0
        three(work)

    assert soak.run_stage(stage(hurried), 1.0, 1e9, fresh=False)[0]
    assert row(place)["done"] == 3


def test_a_failure_stays_in_the_row_until_the_stage_starts_afresh(place: Path) -> None:
    held, line = soak.run_stage(stage(broken), 1.0, 1e9, fresh=False)
    assert not held
    assert "the third did not hold" in line
    soak.run_stage(stage(), 0.1, 1e9, fresh=False)
    assert (row(place)["done"], row(place)["failures"]) == (3, 1)
    soak.run_stage(stage(), 0.1, 1e9, fresh=True)
    assert (row(place)["done"], row(place)["failures"]) == (1, 0)


def test_a_row_says_size_failures_and_commit(place: Path) -> None:
    soak.run_stage(stage(), 0.4, 1e9, fresh=False)
    shown = show.stages({"stages": ledger.read()}).rows
    assert [cell.split(",")[0] for cell in shown[0]] == [
        "R3", "what it does (`soak.py own`)", "4 of 10 turns (40 %)", stages.commit(),
    ]  # fmt: skip


def test_the_page_marks_what_is_older_than_the_code(tmp_path: Path) -> None:
    """An empty tree has other code than any figure."""
    page = text.figures_table()
    names = results("reliability")["stages"]
    assert text.marked(page, tmp_path).count(text.OLDER) == len(names)
    marked = text.marked(page).splitlines()
    for name in set(names) - set(ledger.old(names)):
        (line,) = [line for line in marked if f"(`soak.py {name}`)" in line]
        assert text.OLDER not in line


def test_tests_are_counted_whatever_is_said_after_them() -> None:
    """Triton's binding tells of leaks when the interpreter ends."""
    said = (
        "....\n36 passed, 108 skipped in 79.91s (0:01:19)\nnanobind: leaked 1 function\nsee there\n"
    )
    assert programs.passed(said) == 36
    for nothing in ("3 skipped in 0.10s\n", "an error\n", ""):
        with pytest.raises(StageError):
            programs.passed(nothing)


def test_every_stage_names_files_that_exist_and_a_size(place: Path) -> None:
    for own in soak.STAGES.values():
        assert own.full >= own.least >= 1
        for pattern in own.covers:
            assert list(ledger.ROOT_OF_CHECKOUT.glob(pattern)), f"{own.name}: {pattern}"
        assert begin(own, 1, 1.0).left == 1
    assert results("reliability")["stages"].keys() <= soak.STAGES.keys()


def test_rounding_with_eight_random_bits_is_found_to_be_biased() -> None:
    assert max(map(abs, scores(coarse(LEAST)))) > SCORE
