"""Traffic of nodes: bytes of a node's link on both axes, and the axis that the planner chooses."""

import math

import pytest

from fewbits import Guarantee, SpecError
from fewbits.theory import bounds, cost, planner
from fewbits.theory.bounds import Pair
from fewbits.theory.clusters import ALL_RANKS, BETWEEN_NODES, Cluster
from fewbits.theory.cost import Codec, Link, TrainingJob
from fewbits.theory.planner import Candidate, Setting

CLUSTER = Cluster(4, 2, 1e11)
NATURAL = Candidate("natural", Guarantee(0, omega=1 / 8), Codec(9.0, 2e9, 2e9))
JOB = TrainingJob(10_000_000, 8, 0.2)


def test_a_flat_exchange_sends_a_nodes_width_times_as_much() -> None:
    flat, between = (traffic(JOB.values, 8) for traffic in CLUSTER.axes().values())
    assert between.sent == 2 * 3 / 4 * JOB.values
    assert flat.sent == 2 * between.sent
    assert flat.inside_seconds == 0
    # Half of the values go to the other rank of the node, and half come back, in 32 bits.
    assert between.inside_seconds == pytest.approx(32 * JOB.values / 1e11)
    assert between.encoded == JOB.values / 2 * 5 / 4


def test_the_counts_are_those_of_the_measured_cluster() -> None:
    from fewbits_lab.results import results

    document = results("clusters")
    nodes, width = document["nodes"], document["ranks_in_node"]
    cluster = Cluster(nodes, width, math.inf)
    for row in document["rows"]:
        axis = ALL_RANKS if row["arrangement"] == "flat" else BETWEEN_NODES
        sent = cluster.axes()[axis](document["values"], nodes * width).sent
        codes = row["code_bytes"] / document["values"]
        assert row["payload_bytes"] == pytest.approx(sent * codes, rel=0.01)


def test_the_planner_chooses_the_axis() -> None:
    def planned(inner: float, outer: float) -> planner.Prediction:
        cluster = Cluster(4, 2, inner)
        return planner.predict(NATURAL, Setting(JOB, Link(outer), cluster=cluster))

    slow = planned(1e11, 1e8)
    assert slow.axis == BETWEEN_NODES
    assert slow.slowdown == bounds.slowdown(Pair(1 / 8, 1 / 8), 4)
    step = cost.step_time(JOB, Link(1e8), NATURAL.codec, CLUSTER.between)
    assert slow.step == step
    assert step.wire_seconds > JOB.values * 2 * 3 / 4 * 9 / 1e8
    # Where links inside are no faster, 64 bits a value inside cost more than they save outside.
    assert planned(1e8, 1e8).axis == ALL_RANKS


def test_one_rank_in_a_node_has_one_axis_and_one_node_sends_nothing() -> None:
    assert list(Cluster(8, 1, 1e9).axes()) == [ALL_RANKS]
    flat = Cluster(8, 1, 1e9).flat(1000, 8)
    assert flat == cost.sharded(1000, 8)
    alone = Cluster(1, 8, 1e9).between(1000, 8)
    assert (alone.encoded, alone.sent, alone.hops) == (0, 0, 2)


@pytest.mark.parametrize("wrong", [(0, 2, 1e9), (2, 0, 1e9), (2, 2, 0.0), (2, 2, math.nan)])
def test_what_is_no_cluster_is_refused(wrong: tuple[int, int, float]) -> None:
    with pytest.raises(SpecError):
        Cluster(*wrong)
