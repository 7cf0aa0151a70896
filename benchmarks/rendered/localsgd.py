"""docs/localsgd.md, from `local_sgd.py`, and what `scale.py` says of links."""

from statistics import fmean, stdev
from typing import Any

from benchmarks.rendered.blocks import bullets, one, results, span

from fewbits.lab.recorded import training
from fewbits.lab.tables import markdown

PLAIN, WITH = "identity", " with "
CODED = "natural:coder=rans"
NAMES = {"mnist": "MNIST, MLP", "tinyshakespeare": "tiny-shakespeare, GPT"}
LOCAL_STEPS = 32  # of the example on the page
Run = dict[str, Any]
Group = tuple[str, str, str]  # data, method, operator


def predicted_ratio(run: Run) -> float:
    """By the operator's own frames, with what goes exact, and without headers between ranks."""
    return with_exact(run, run["exact_elements"])


def with_exact(run: Run, exact: float) -> float:
    """The same if another number of values went exact."""
    whole = run["elements"]
    return float(32 * whole / (32 * exact + run["bits_of_frames"] * (whole - exact)))


def chosen(data: str, method: str, operator: str) -> list[Run]:
    """The runs of all seeds."""
    return [
        run
        for run in results("local-sgd")["runs"]
        if (run["data"], run["method"], run["operator"]) == (data, method, operator)
    ]


def gaps(data: str, method: str, operator: str) -> list[float]:
    """Test losses minus those of the same method without compression, by seed."""
    pairs = zip(chosen(data, method, operator), chosen(data, method, PLAIN), strict=True)
    return [own["test_loss"] - plain["test_loss"] for own, plain in pairs]


def standard_error(values: list[float]) -> float:
    """Of their mean."""
    return stdev(values) / len(values) ** 0.5


def ratio(runs: list[Run]) -> float:
    """How many times fewer bytes were sent."""
    return fmean(run["plain"] / run["sent"] for run in runs)


def groups() -> list[Group]:
    """LocalSGD before DiLoCo, uncompressed first."""
    found = {(run["data"], run["method"], run["operator"]) for run in results("local-sgd")["runs"]}
    return sorted(found, key=lambda own: (own[0], -len(own[1]), own[2] != PLAIN, len(own[2])))


def label(operator: str) -> str:
    """As a cell."""
    spec, with_, feedback = operator.partition(WITH)
    return "none" if operator == PLAIN else f"`{spec}`" + (f"{with_}`{feedback}`" if with_ else "")


def runs_table() -> str:
    """Losses and bytes."""
    return markdown(training.local(results("local-sgd")["runs"]))


def losses() -> str:
    """Which rows can be told apart from uncompressed ones."""
    told = []
    for own in groups():
        data, method, operator = own
        if operator == PLAIN:
            continue
        mean, error = fmean(gaps(*own)), standard_error(gaps(*own))
        if abs(mean) > 2 * error:
            told.append(f"{NAMES[data]}, {method}, {label(operator)} ({mean:+.4f})")
    wide = gaps("mnist", "LocalSGD", "natural")
    return (
        "**Losses.** By two standard errors, these can be told apart from uncompressed runs:"
        f" {'; '.join(told) or 'none'}. A negative difference is better than float32. All replicas were equal bit"
        " for bit at the end. With three seeds small differences stay hidden: LocalSGD with `natural` on MNIST varied"
        f" from {min(wide):+.3f} to {max(wide):+.3f}."
    )


def noise() -> str:
    """Errors of long changes, and what a memory does."""
    memory = gaps("mnist", "LocalSGD", f"{CODED} with ef14")
    return (
        "**Noise counts for more here than in every step.** The error of an operator is in proportion to what it"
        " compresses, and a change is $H$ gradients long: $H$ separate errors would average out. A memory"
        " (`feedback=\"ef14\"`) takes it back; on MNIST with LocalSGD it made the loss lower than float32's in"
        f" {sum(gap < 0 for gap in memory)} of {len(memory)} seeds."
    )  # fmt: skip


def sizes() -> str:
    """Bytes against frames, and why small networks save less."""
    every = [run for own in groups() for run in chosen(*own) if WITH not in own[2]]
    off = max(abs(run["plain"] / run["sent"] / predicted_ratio(run) - 1) for run in every)
    text, image = (
        [ratio(chosen(data, method, CODED)) for method in ("LocalSGD", "DiLoCo")]
        for data in ("tinyshakespeare", "mnist")
    )
    exact = chosen("mnist", "LocalSGD", CODED)[0]
    share = exact["exact_elements"] / exact["elements"]
    return (
        f"**Bytes** are those of the operator's own frames within {100 * off:.1f} %; headers and rounded-up lengths"
        f" are the difference. `{CODED}` is at {span(text, 1)} times with the language model, and at"
        f" {span(image, 1)} with the small MNIST network, below large models: its changes have a wider range, since"
        f" some pixels are hardly ever inked, and the {100 * share:.1f} % of its values that travel exactly cost"
        f" {32 * share:.2f} bits of each value on average."
    )


def policy() -> str:
    """What the default policy does to the small language model."""
    own = chosen("tinyshakespeare", "LocalSGD", CODED)
    same = one(results("sharded-training")["runs"], data="text", worker=CODED)  # the same model
    assert same["elements"] == own[0]["elements"]
    share = 1 - same["compressed_share"]
    small = fmean(with_exact(run, share * run["elements"]) for run in own)
    return (
        "**Small models need a policy.** With the default policy the language model's embeddings and its last layer"
        f" are below 16,384 elements and go exact, {100 * share:.1f} % of the values: by the same frames it would"
        f" send {small:.1f} times less, not {ratio(own):.1f}. `report()` shows what goes exact."
    )


def verdict() -> str:
    """What the table says."""
    return bullets(losses(), noise(), sizes(), policy())


def helps() -> str:
    """Where local steps and compression help together."""
    times = LOCAL_STEPS * ratio(chosen("tinyshakespeare", "LocalSGD", CODED))
    pays = results("scale")["pays_below_gbit"]
    ends = [end for own in pays.values() for end in own[str(LOCAL_STEPS)]]
    return bullets(
        "**Where the link is slow, or far.** Bytes fall by $H$ times the operator's ratio. With"
        f" $H = {LOCAL_STEPS}$ and `{CODED}` the language model's ranks send about {times:.0f} times less than DDP in"
        " float32. Ranks also wait for each other, and for latency, $H$ times less often.",
        "**Not where the link is fast.** `fewbits lab run scale` has a model of both, from 2 to 10,000 workers: above"
        f" {span(ends, 0)} Gbit/s, by operator and size, a codec on one processor thread loses with local steps as it"
        " does without, only less.",
    )


BLOCKS = {"runs": runs_table, "verdict": verdict, "helps": helps}
