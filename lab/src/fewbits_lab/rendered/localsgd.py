"""docs/localsgd.md, from `local_sgd.py`, and what `scale.py` says of links."""

from statistics import fmean

from fewbits_lab.prose import bullets, one, span
from fewbits_lab.results import results
from fewbits_lab.studies.local_sgd.text import (
    LOCAL_SGD_CODED,
    chosen,
    losses,
    noise,
    ratio,
    sizes,
    with_exact,
)

_LOCAL_STEPS = 32  # of the example on the page


def policy() -> str:
    """The effect of the default policy on the small language model."""
    own = chosen("tinyshakespeare", "LocalSGD", LOCAL_SGD_CODED)
    same = one(
        results("sharded-training")["runs"], data="text", worker=LOCAL_SGD_CODED, replicas=1
    )  # the same model
    assert same["elements"] == own[0]["elements"]
    share = 1 - same["compressed_share"]
    small = fmean(with_exact(run, share * run["elements"]) for run in own)
    return (
        "**Small models need a policy.** With the default policy the language model's embeddings and its last layer"
        f" are below 16,384 elements and go exact, {100 * share:.1f} % of the values: by the same frames it would"
        f" send {small:.1f} times less, not {ratio(own):.1f}. `report()` shows what goes exact."
    )


def verdict() -> str:
    """The verdict on the table."""
    return bullets(losses(), noise(), sizes(), policy())


def helps() -> str:
    """The cases in which local steps and compression help together."""
    times = _LOCAL_STEPS * ratio(chosen("tinyshakespeare", "LocalSGD", LOCAL_SGD_CODED))
    pays = results("scale-summary")["pays_below_gbit"]
    ends = [end for own in pays.values() for end in own[str(_LOCAL_STEPS)]]
    return bullets(
        "**Where the link is slow, or far.** Bytes fall by $H$ times the operator's ratio. With"
        f" $H = {_LOCAL_STEPS}$ and `{LOCAL_SGD_CODED}` the language model's ranks send about {times:.0f} times less than DDP in"
        " float32. Ranks also wait for each other, and for latency, $H$ times less often.",
        "**Not where the link is fast.** `fewbits-lab run scale` has a model of both, from 2 to 10,000 workers: above"
        f" {span(ends, 0)} Gbit/s, by operator and size, a codec on one processor thread loses with local steps as it"
        " does without, only less.",
    )
