"""Training on aggregators that can only add integers: bits, losses, faults, NaN."""

import threading
import time
from typing import Any

import pytest
from launch import Launcher, Outcome

from fewbits.switch.aggregator import Aggregator, AggregatorSetup
from fewbits.switch.keys import SwitchKey
from fewbits.switch.protocol import Address
from switches import Relay, serving


def on(*aggregators: Address, **more: Any) -> dict[str, Any]:
    """Options of `attach`."""
    return {"collective": "switch", "aggregators": [str(own) for own in aggregators], **more}


def finals(launcher: Launcher, world: int, compression: dict[str, Any], **more: Any) -> str:
    """The digest of the parameters, the same on all ranks."""
    results = launcher.results("train", world, compression=compression, **more)
    (final,) = {result["final"] for result in results}
    return final


@pytest.mark.parametrize(
    ("world", "steps"),
    [(4, 100), *(pytest.param(n, 1000, marks=pytest.mark.soak) for n in (2, 3, 4))],
)
def test_replicas_stay_identical(launcher: Launcher, world: int, steps: int) -> None:
    with serving(AggregatorSetup(world)) as own:
        final = finals(launcher, world, on(own.address), steps=steps, deadline=1200.0)
        assert own.report()["sums"] >= steps
    assert final != finals(launcher, world, {}, steps=steps, deadline=1200.0)


def test_neither_buckets_nor_packets_nor_aggregators_change_a_bit(launcher: Launcher) -> None:
    found = set()
    with serving(AggregatorSetup(2, 4)) as a, serving(AggregatorSetup(2, 16)) as b:
        for megabytes, aggregators in ((25, (a,)), (0.05, (a, b)), (1, (b, a))):
            found.add(
                finals(
                    launcher,
                    2,
                    on(*(own.address for own in aggregators), seed=5),
                    steps=3,
                    model={"wide": 2500, "bucket_cap_mb": megabytes},
                )
            )
    assert len(found) == 1


def test_losses_doubles_and_disorder_do_not_change_a_bit(launcher: Launcher) -> None:
    options: dict[str, Any] = {"steps": 12, "model": {"wide": 1100}}
    with serving(AggregatorSetup(3)) as own:
        straight = finals(launcher, 3, on(own.address), **options)
        relay = Relay(own.address, 3, 0.03)
        try:
            assert finals(launcher, 3, on(relay.address), **options) == straight
        finally:
            relay.close()
    assert min(relay.lost, relay.doubled, relay.delayed) > 0


def test_a_key_changes_no_bit_and_is_not_in_the_report(launcher: Launcher) -> None:
    secret, options = "a key of enough bytes", {"steps": 6, "model": {"wide": 1100}}
    with serving(AggregatorSetup(2)) as own:
        straight = finals(launcher, 2, on(own.address), **options)
    with serving(AggregatorSetup(2), key=SwitchKey(secret)) as own:
        compression = on(own.address, key=secret)
        results = launcher.results("train", 2, compression=compression, **options)
        assert own.report()["sums"] > 0
        assert own.report()["forged"] == 0
    assert {result["final"] for result in results} == {straight}
    assert secret not in str(results)


@pytest.mark.parametrize(
    ("uplink", "dtype"),
    [
        ("natural", "bfloat16"),
        ("natural", "float16"),
        ("natural-dithering:levels=20,scale=natural", "float32"),
    ],
)
def test_other_formats_and_natural_dithering_run_too(
    launcher: Launcher, uplink: str, dtype: str
) -> None:
    with serving(AggregatorSetup(2)) as own:
        results = launcher.results(
            "train",
            compression=on(own.address, uplink=uplink),
            model={"dtype": dtype},
            steps=6,
        )
        assert own.report()["sums"] > 0
    assert results[0]["final"] == results[1]["final"]
    assert results[0]["report"]["compressed_share"] == 1
    assert results[0]["losses"][-1] < 3


@pytest.mark.parametrize("policy", ["propagate", "skip"])
def test_what_is_not_finite_is_never_lost(launcher: Launcher, policy: str) -> None:
    cases = [(float("nan"), 500, 1), (float("inf"), 0, None), (float("-inf"), 1000, 1)]
    with serving(AggregatorSetup(2)) as own:
        first, second = launcher.results(
            "nonfinite",
            policy=policy,
            collective="switch",
            uplink="natural",
            cases=cases,
            aggregators=[str(own.address)],
        )
    assert first["seen"] == second["seen"]
    for sick, healthy in zip(first["seen"][::2], first["seen"][1::2], strict=True):
        assert sick["skipped"] if policy == "skip" else sick["bad"] > 0
        assert healthy["bad"] == 0
        assert not healthy["zero"]


def raised(outcomes: list[Outcome], within: float) -> set[str]:
    """The messages of ranks that all raised `PeerError`."""
    for outcome in outcomes:
        assert outcome.error == "PeerError", outcome
        assert outcome.took is None or outcome.took < within, outcome
    return {outcome.message for outcome in outcomes}


def test_a_killed_worker_is_an_error_on_all_others(launcher: Launcher) -> None:
    with serving(AggregatorSetup(3)) as own:
        outcomes = launcher.run(
            "fail",
            3,
            place="encode",
            deed="kill",
            timeout=10.0,
            hurry=False,
            options=on(own.address),
        )
    survivors = [outcomes[0], outcomes[2]]
    assert all(outcome.elapsed is not None for outcome in survivors)
    assert any("rank 1" in text for text in raised(survivors, 10.0))


def test_an_aggregator_that_goes_is_an_error_on_all_ranks(launcher: Launcher) -> None:
    gone: list[float] = []
    with serving(AggregatorSetup(2)) as own:

        def end(own: Aggregator) -> None:
            while own.report()["sums"] < 3:
                time.sleep(0.01)
            own.stop()
            time.sleep(0.3)
            own.close()
            gone.append(time.monotonic())

        thread = threading.Thread(target=end, args=(own,))
        thread.start()
        outcomes = launcher.run(
            "train", 2, steps=100_000, compression=on(own.address, timeout=6.0), deadline=40.0
        )
        ended = time.monotonic()
        thread.join()
    assert any("aggregator 127.0.0.1:" in text for text in raised(outcomes, 6.0))
    assert ended - gone[0] < 6.0


def test_what_a_switch_cannot_do_is_refused(launcher: Launcher) -> None:
    for options, word in (
        (on(Address("127.0.0.1", 9), feedback="ef14"), "feedback"),
        (on(Address("127.0.0.1", 9), uplink="natural:rounding=nearest"), "powers of two"),
        (on(Address("127.0.0.1", 9), uplink="bfloat16"), "powers of two"),
        (on(), "fewbits switch"),
        ({"aggregators": ["127.0.0.1:9"]}, "collective"),
    ):
        outcomes = launcher.run("train", 2, compression=options)
        for outcome in outcomes:
            assert outcome.error == "SpecError", outcome
            assert word in outcome.message
