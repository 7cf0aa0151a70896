"""The sections of the page and what is in each: adding an experiment to one is one line here.

What is in no section is shown after the last one.
"""

from typing import NamedTuple


class PageSection(NamedTuple):
    """A heading, and what is below it: names of experiments and recorded results, and their kind.

    The kind says how numbers came about: measured, modelled, computed.
    """

    name: str
    title: str
    about: str
    items: dict[str, str]


FORMULAS = "computed from formulas"
FRAMES = "measured on frames"
DESCENT = "measured: descent with real frames"
_MEASURED = "measured"
TRAINED = "measured: training runs"
MIXED = "bytes measured, seconds modelled"
LEARNED = "measured: training runs; seconds on a link are modelled"

SECTIONS = (
    PageSection(
        "links",
        "Training on shaped links",
        "Whole training steps where the link is the bottleneck, and where it is not.",
        {
            "demo": TRAINED,
            "links": _MEASURED,
            "time-saved": "measured by links and nc-step-time",
            "time-to-accuracy": TRAINED,
            "nc-step-time": "measured where it says so, and modelled",
            "transport": _MEASURED,
            "clusters": _MEASURED,
            "race-links": _MEASURED,
            "race-steps": TRAINED,
            "race-seconds": "steps trained, seconds measured",
        },
    ),
    PageSection(
        "accuracy",
        "Accuracy",
        "What compression does to what is learned: paired runs from the same start.",
        {
            "accuracy": TRAINED,
            "nc-long-mnist": LEARNED,
            "nc-long-resnet20": LEARNED,
            "nc-long-alexnet": LEARNED,
            "nc-long-gpt": LEARNED,
            "nc-training-mnist": LEARNED,
            "nc-training-resnet20": LEARNED,
            "nc-training-alexnet": LEARNED,
            "nc-training-gpt": LEARNED,
            "feedback": TRAINED,
            "feedback-cnn": TRAINED,
            "feedback-search": TRAINED,
            "bias": TRAINED,
            "local-sgd": TRAINED,
            "race-islands": TRAINED,
            "streaming": TRAINED,
            "sharded-training": TRAINED,
            "two-bit-training": TRAINED,
        },
    ),
    PageSection(
        "one-figure",
        "What it is, in one figure",
        "Bits a value against error. A lower bound holds for every operator; what an operator "
        "costs is its distance from that line.",
        {"bits-error": FRAMES, "uncertainty": FRAMES, "comparison": FRAMES, "trellis-bits": FRAMES},
    ),
    PageSection(
        "speed",
        "Speed",
        "What compression costs in time: every figure is relative to a copy of the same vector in "
        "the same run. Slower than a copy is marked.",
        {
            "codec-speed": _MEASURED,
            "bench": _MEASURED,
            "bench-dtypes": _MEASURED,
            "coding": _MEASURED,
            "top-k": _MEASURED,
            "spherical-speed": _MEASURED,
        },
    ),
    PageSection(
        "federated",
        "Federated learning",
        "Clients that have little in common, few of them at a time, on slow links.",
        {
            "federated-mnist": TRAINED,
            "flower": _MEASURED,
            "methods-mushrooms": DESCENT,
            "methods": DESCENT,
            "federated-scale": MIXED,
        },
    ),
    PageSection(
        "in-network",
        "In-network aggregation",
        "Sums made in the network by a program that can only add integers, as a switch can.",
        {"switch-links": _MEASURED, "switch-speed": _MEASURED},
    ),
    PageSection(
        "gradients",
        "Recorded gradients",
        "Real gradients are not Gaussian vectors: what operators do on recorded ones.",
        {
            "nc-figure21": _MEASURED,
            "gradients": _MEASURED,
            "equal-bytes": FRAMES,
            "equal-bits": FRAMES,
        },
    ),
    PageSection(
        "peers",
        "Peers",
        "Other packages that do a part of the same, in the same run.",
        {"peers": _MEASURED},
    ),
    PageSection(
        "when-not",
        "When not to compress",
        "Compression that does not pay is the common case on fast links: measured up to 10 Gbit/s, "
        "modelled beyond.",
        {"links-limits": _MEASURED, "scale": MIXED},
    ),
    PageSection(
        "claims",
        "The papers' headline claims",
        "Claimed, and what came out here. A claim that was not tried says so.",
        {},
    ),
    PageSection(
        "papers",
        "The papers' tables and figures, computed anew",
        "Horváth et al., Natural Compression for Distributed Deep Learning (2022), and Albasyoni "
        "et al., Optimal Gradient Compression for Distributed and Federated Learning (2020): ours "
        "beside every printed value, with the errata first.",
        {
            "theorems": FRAMES,
            "dithering-bits": FRAMES,
            "nc-table1": FORMULAS,
            "nc-table5": FORMULAS,
            "nc-table7": FORMULAS,
            "nc-table8": FORMULAS,
            "nc-figure3": "computed from formulas, and measured on frames",
            "nc-figures16-18": "computed exactly, and measured on frames",
            "oc-lower-bounds": FORMULAS,
            "oc-upper-bounds": FORMULAS,
            "oc-spherical": "computed from formulas, and measured on frames",
            "oc-blocks": "computed from formulas, and measured on frames",
            "oc-sweep": DESCENT,
            "oc-vectors": FRAMES,
            "oc-convergence": "measured: descent, bits as the paper counts them",
            "oc-regressions": DESCENT,
        },
    ),
)
