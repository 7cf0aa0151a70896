"""Training runs: models of the stated sizes, bytes as they were sent, nothing done twice."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fewbits.errors import SpecError
from fewbits_lab import store
from fewbits_lab.experiment import Experiment, StudySettings, silent
from fewbits_lab.index import EXPERIMENTS
from fewbits_lab.parts import FinishedParts
from fewbits_lab.training import curves, paired, plan, verdicts
from fewbits_lab.training.rows import DIVERGED, RAN, TrainingRow, not_run, of_runs

pytest.importorskip("torch")
TRAINED = [own for own in EXPERIMENTS if own.name.startswith("nc-training-")]
LONG = [own for own in EXPERIMENTS if own.name.startswith("nc-long-")]
models = pytest.importorskip("fewbits_lab.training.models")
loop = pytest.importorskip("fewbits_lab.training.loop")
pool = pytest.importorskip("fewbits_lab.training.pool")

NAMES = {own.name: own for own in plan.TRAINING_CONTENDERS + plan.PARTNERS}
TINY = replace(plan.DIGITS, epochs=2, batch=16, samples=320, tested=120, rate=0.12)


def job(name: str, seed: int = 7) -> plan.TrainingRun:
    return plan.TrainingRun(TINY, NAMES[name], seed, "digits")


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: models.PaperResNet(20), 0.27e6),
        (lambda: models.PaperResNet(110), 1.73e6),
        (models.AlexNet, 62.4e6),
        (models.AlexNetLike, 1.1e6),
        (lambda: models.AlexNetLike(2048), 5.83e6),
    ],
)
def test_models_have_the_stated_number_of_parameters(build, expected: float) -> None:
    import torch

    with torch.device("meta"):  # sizes without the values
        net = build()
    assert models.parameters(net) == pytest.approx(expected, rel=0.01)


def test_a_shortcut_halves_and_adds_channels_of_zeros() -> None:
    import torch

    block = models.BatchNormBlock(2, 4)
    torch.nn.init.zeros_(block.body[-1].weight)  # the body adds nothing then
    x = torch.rand(3, 2, 6, 6)
    y = block(x)
    assert y.shape == (3, 4, 3, 3)
    assert torch.equal(y[:, :2], x[:, :, ::2, ::2])
    assert not y[:, 2:].any()


@pytest.mark.parametrize("name", [plan.TRAINING_PLAIN, plan.TRAINING_NATURAL, plan.TOP_NATURAL])
def test_a_run_learns_and_bytes_are_those_that_were_sent(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fewbits.collectives import header
    from fewbits.collectives.comm import LocalComm

    sent = [0] * plan.RANKS
    start = LocalComm.start

    def counting(self, *mail, **options):
        for outgoing, _ in mail:
            others = (data for to, data in enumerate(outgoing) if to != self.rank)
            sent[self.rank] += sum(data.size for data in others if data is not None)
        return start(self, *mail, **options)

    monkeypatch.setattr(LocalComm, "start", counting)
    found = loop.run(job(name))
    assert [(point.epoch, point.steps) for point in found] == [(1, 20), (2, 40)]
    assert found[-1].train_loss < 0.9 * found[0].train_loss
    assert found[-1].test_loss < 0.9 * found[0].test_loss
    assert found[-1].accuracy > 0.4
    if name == plan.TRAINING_PLAIN:
        assert not any(sent)
        assert found[-1].sent_bytes == 40 * 6 * found[-1].parameters
    else:
        # Reports count steps; the ranks' agreement on their configuration comes before them.
        agreement = (header.SIZE + 4096) * (plan.RANKS - 1)  # a header and the text
        assert found[-1].sent_bytes == sum(sent) // plan.RANKS - agreement
        assert found[-1].busiest_bytes == max(sent) - agreement
        assert found[-1].codec_seconds > 0


def test_equal_jobs_give_equal_points_and_other_seeds_others() -> None:
    def losses(seed: int) -> list[float | None]:
        task = replace(TINY, epochs=1, samples=64)
        return [
            one.test_loss for one in loop.run(replace(job(plan.TRAINING_NATURAL, seed), task=task))
        ]

    assert losses(7) == losses(7) != losses(8)


def test_a_run_that_diverges_ends_and_says_so() -> None:
    wild = plan.TrainingRun(replace(TINY, rate=1e4), NAMES[plan.TRAINING_NATURAL], 7, "digits")
    found = loop.run(wild)
    assert not found[-1].finite
    assert len(found) < TINY.epochs
    rows = of_runs([wild], [found])
    assert rows[-1].status == DIVERGED
    assert paired.diverged(rows, plan.TRAINING_NATURAL) == 1
    json.dumps([point.train_loss for point in found], allow_nan=False)


def test_subsets_are_drawn_from_the_whole_file() -> None:
    """Files may be sorted by class: the first samples would be of one."""
    some = loop.loaded("digits", 300, 100)
    assert len(some.train.targets) == 300
    assert len(set(some.train.targets)) == 10
    assert loop.loaded("digits", 300, 100) is some


@pytest.mark.parametrize("experiment", TRAINED[1:], ids=lambda own: own.name)
def test_training_without_its_data_is_not_finished(
    tmp_path: Path, experiment: Experiment[TrainingRow]
) -> None:
    """The data may come into the folder that `--data` named."""
    settings = StudySettings(quick=True, data=str(tmp_path))
    first, again = (store.obtain(experiment, settings, tmp_path) for _ in range(2))
    assert first.fresh
    assert again.fresh
    assert not experiment.is_complete(first.rows)
    assert experiment.is_complete([replace(first.rows[0], status=RAN), *first.rows[1:]])


def test_long_runs_take_all_of_the_data_and_some_2000_steps() -> None:
    tasks = (plan.LONG_MNIST, plan.LONG_ALEXNET, plan.LONG_RESNET20, plan.LONG_GPT)
    for task in tasks:
        assert 1800 < task.epochs * (task.samples // task.batch) < 2100
        assert task.batch % plan.RANKS == 0
        names = {own.name for own in task.contenders}
        assert names == {own.name for own in task.quick().contenders}
        assert {plan.TRAINING_PLAIN, plan.TRAINING_NATURAL} <= names
    for experiment in LONG:
        rows = experiment.compute(StudySettings(), silent)
        assert rows[0].status.startswith("not run: it needs --data DIR with a folder ")
        assert not experiment.is_complete(rows)


def test_time_of_earlier_runs_is_kept_with_their_parts(tmp_path: Path) -> None:
    path = tmp_path / "parts.json"
    FinishedParts(path, 1).add("a", [])
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "seconds": 100.0}))
    again = FinishedParts(path, 1)
    assert again.seconds == 100
    again.add("b", [])
    assert 100 <= FinishedParts(path, 1).seconds < 160
    assert FinishedParts(path, 2).seconds == 0


def test_an_interrupted_experiment_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    few = tuple(replace(own, seeds=2) for own in plan.TRAINING_CONTENDERS[:2])
    task = replace(TINY, epochs=1, samples=64, contenders=few)
    monkeypatch.setattr(plan, "DIGITS", task)
    monkeypatch.setattr(pool.os, "cpu_count", lambda: 1)
    run = loop.run

    def counted(own: plan.TrainingRun):
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append(own.key)
        return run(own)

    monkeypatch.setattr(loop, "run", counted)
    experiment = TRAINED[0]
    with pytest.raises(KeyboardInterrupt):
        store.obtain(experiment, StudySettings(), tmp_path)
    assert not (tmp_path / "nc-training-mnist.json").exists()
    kept = tmp_path / "nc-training-mnist.parts.json"
    assert len(json.loads(kept.read_text())["parts"]) == 3
    first, ran[:] = list(ran), []
    rows = store.obtain(experiment, StudySettings(), tmp_path).rows
    assert len(ran) == 1
    assert len({*first, *ran}) == 4
    assert [(row.operator, row.seed) for row in rows] == [
        ("none", 7), ("natural", 7), ("none", 8), ("natural", 8)
    ]  # fmt: skip
    assert not kept.exists()


def test_parts_of_other_settings_and_damaged_ones_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "parts.json"
    FinishedParts(path, {"seed": 1}).add("a", [{"x": 1.5}])
    assert FinishedParts(path, {"seed": 1}).find("a") == [{"x": 1.5}]
    assert FinishedParts(path, {"seed": 2}).find("a") is None
    path.write_text(path.read_text()[:-5])
    assert FinishedParts(path, {"seed": 1}).find("a") is None
    assert FinishedParts().find("a") is None


def test_what_needs_data_says_so(tmp_path: Path) -> None:
    for experiment in TRAINED[1:]:
        for data in (None, str(tmp_path)):
            rows = experiment.compute(StudySettings(data=data), silent)
            assert rows[0].status.startswith("not run: it needs --data DIR with a folder ")
            assert rows[0].accuracy is None
            assert all("not run" in said for said in experiment.findings(rows))
            assert all(own.agrees is None and own.why for own in experiment.claims(rows))
            experiment.draw(rows)
    rows = TRAINED[1].compute(StudySettings(), silent)
    assert [row.data for row in rows] == ["CIFAR-10 (JPEG copy)", "ImageNet"]
    with pytest.raises(SpecError, match="--data must be a folder of data sets, got '/nowhere'"):
        rows = TRAINED[1].compute(StudySettings(data="/nowhere"), silent)


@pytest.mark.parametrize(
    ("task", "file", "message"),
    [
        (plan.MNIST, "train-images-idx3-ubyte.gz", "Not a gzipped file"),
        (plan.RESNET20, "cifar.npz", r"cifar\.npz: "),
        (plan.GPT, "input.txt.gz", "Not a gzipped file"),
        (plan.GPT, "other.txt", "holds no idx files, no .npz and no input.txt"),
    ],
)
def test_bad_files_are_refused_in_one_line(
    tmp_path: Path, task: plan.TrainingTask, file: str, message: str
) -> None:
    (tmp_path / task.folder).mkdir()
    (tmp_path / task.folder / file).write_bytes(b"damaged")
    own = plan.TrainingRun(
        task, plan.TRAINING_CONTENDERS[0], 7, plan.folder_of(task, str(tmp_path))
    )
    with pytest.raises(SpecError, match=message) as caught:
        loop.run(own)
    assert "\n" not in str(caught.value)


def made(operator: str, accuracies: list[float], sent: int, losses: list[float] | None = None):
    return [
        TrainingRow("CNN", "made", operator, RAN, seed=seed, epoch=epoch, accuracy=own * epoch / 2,
            test_loss=(losses or [1 - a for a in accuracies])[seed], train_loss=0.1,
            sent_bytes=sent * epoch, modelled_seconds=sent / 1e3 * epoch, parameters=10)
        for seed, own in enumerate(accuracies)
        for epoch in (1, 2)
    ]  # fmt: skip


PLAIN_RUNS = made(plan.TRAINING_PLAIN, [0.90, 0.91, 0.92], 3200)


def test_differences_are_paired_and_their_interval_is_students() -> None:
    rows = PLAIN_RUNS + made(plan.TRAINING_NATURAL, [0.901, 0.913, 0.922], 900)
    found = paired.points(rows, plan.TRAINING_NATURAL, plan.TRAINING_PLAIN)
    assert found.mean == pytest.approx(0.2)
    assert found.half == pytest.approx(4.303 * 0.1 / np.sqrt(3))
    assert found.seeds == 3
    assert paired.fewer_bytes(rows, plan.TRAINING_NATURAL, plan.TRAINING_PLAIN) == pytest.approx(
        32 / 9
    )


@pytest.mark.parametrize(
    ("accuracies", "agrees"),
    [
        ([0.901, 0.910, 0.921], True),  # 0.07 ± 0.14 points
        ([0.89, 0.90, 0.91], False),  # exactly a point below, every time
        ([0.896, 0.907, 0.916], False),  # within the margin, but surely below
        ([0.88, 0.93, 0.92], None),  # up and down by two points
    ],
)
def test_claims_follow_the_interval(accuracies: list[float], agrees: bool | None) -> None:
    rows = PLAIN_RUNS + made(plan.TRAINING_NATURAL, accuracies, 900)
    same, bits = verdicts.claims(rows)
    assert same.agrees is agrees
    assert "points, 3 paired seeds; test loss" in same.ours
    assert bool(same.why) == (agrees is not True)
    assert bits.agrees
    assert "3.56 times fewer bytes" in bits.ours
    (exact,) = verdicts.claims(PLAIN_RUNS + made(plan.TRAINING_NATURAL, accuracies, 1200))[1:]
    assert not exact.agrees
    assert exact.why


def test_a_higher_loss_is_not_called_agreement() -> None:
    plain = made(plan.TRAINING_PLAIN, [0.9, 0.91, 0.92], 3200, [0.50, 0.51, 0.52])
    for losses, agrees in (([0.52, 0.53, 0.541], False), ([0.49, 0.52, 0.51], True)):
        claim = verdicts.claims(
            plain + made(plan.TRAINING_NATURAL, [0.9, 0.91, 0.92], 900, losses)
        )[0]
        assert claim.agrees is agrees
        assert ("test loss is higher" in claim.why) is not agrees


def test_what_is_not_decided_says_how_many_seeds_would_do() -> None:
    found = paired.Difference(0.5, 4.303 * 2 / np.sqrt(3), 3)  # a deviation of 2 points
    assert found.seeds_for(1.0) == int(np.ceil((1.96 * 2) ** 2))
    assert found.seeds_for(100.0) == 4
    rows = PLAIN_RUNS + made(plan.TRAINING_NATURAL, [0.88, 0.93, 0.92], 900)
    assert "some 16 seeds would decide it" in verdicts.claims(rows)[0].why


def test_partners_decide_the_other_claims() -> None:
    def decided(*runs: list[TrainingRow]) -> bool | None:
        return verdicts.claims([row for run in runs for row in run])[0].agrees

    flat = [0.9, 0.9, 0.9]
    dithering = made(plan.NATURAL_DITHERING, flat, 500, [0.30, 0.31, 0.32])
    standard = made(plan.STANDARD_DITHERING, flat, 500, [0.40, 0.42, 0.41])
    assert decided(dithering, standard) is True
    assert decided(made(plan.NATURAL_DITHERING, flat, 1, [0.5, 0.51, 0.52]), standard) is False
    assert decided(made(plan.NATURAL_DITHERING, flat, 1, [0.1, 0.5, 0.7]), standard) is None
    lost = [replace(row, status=DIVERGED) for row in standard]
    assert decided(dithering, lost) is True
    assert decided(made(plan.TOP_NATURAL, flat, 60), made(plan.TOP, flat, 100)) is True
    assert decided(made(plan.TOP_NATURAL, flat, 70), made(plan.TOP, flat, 100)) is False
    assert decided(made(plan.RANDOM_NATURAL, flat, 99), made(plan.RANDOM, flat, 100)) is True
    assert decided(dithering, made(plan.FINE_DITHERING, flat, 900)) is False


def test_findings_keep_those_who_lose() -> None:
    rows = PLAIN_RUNS + made(plan.RANDOM_NATURAL, [0.5, 0.5, 0.5], 640)
    rows.append(not_run("ResNet-50", "ImageNet", "no"))
    plain, lost, unrun = verdicts.findings(rows)
    assert "91.00 % after 2 epochs, 3 seeds" in plain
    assert "-41.00 ± 2.48 points" in lost
    assert "5.00 times fewer bytes, 5.00 times as fast" in lost
    assert unrun == "ResNet-50, ImageNet: not run: no."
    assert len(curves.draw(rows).axes) == 6


def test_modelled_seconds_add_up_computing_coding_and_the_link() -> None:
    point = loop.CurvePoint(1_000_000, 1, 1.0, 1.0, 0.5, 0, 1_500_000 * 10, 10, 2.0, 0.3)
    plain, natural = of_runs(
        [
            plan.TrainingRun(TINY, NAMES[name], 7, "digits")
            for name in (plan.TRAINING_PLAIN, plan.TRAINING_NATURAL)
        ],
        [[point], [replace(point, compute_seconds=2.2)]],
    )
    # Both compute alike, 0.21 s a step. A ring has 6 waits, the scheme 2, of 50 µs each.
    assert plain.modelled_seconds == pytest.approx(2.1 + 10 * (6e6 * 8 / 1e9 + 6 * 50e-6), abs=2e-3)
    assert natural.modelled_seconds == pytest.approx(
        2.1 + 0.3 + 10 * (1.5e6 * 8 / 1e9 + 2 * 50e-6), abs=2e-3
    )
