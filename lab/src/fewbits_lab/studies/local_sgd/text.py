"""Makes the text of README and docs about `local-sgd`."""

from statistics import fmean

from fewbits_lab.prose import span
from fewbits_lab.record import Item, standard_error
from fewbits_lab.results import results
from fewbits_lab.studies.local_sgd import show
from fewbits_lab.tables import markdown

_PLAIN, WITH = "identity", " with "
LOCAL_SGD_CODED = "natural:coder=rans"
NAMES = {"mnist": "MNIST, MLP", "tinyshakespeare": "tiny-shakespeare, GPT"}
Group = tuple[str, str, str]  # data, method, operator


def predicted_ratio(run: Item) -> float:
    """The ratio by the operator's own frames and exact values, without headers between ranks."""
    return with_exact(run, run["exact_elements"])


def with_exact(run: Item, exact: float) -> float:
    """The same if another number of values went exact."""
    whole = run["elements"]
    return float(32 * whole / (32 * exact + run["bits_of_frames"] * (whole - exact)))


def chosen(data: str, method: str, operator: str) -> list[Item]:
    """The runs of all seeds."""
    return [
        run
        for run in results("local-sgd")["runs"]
        if (run["data"], run["method"], run["operator"]) == (data, method, operator)
    ]


def gaps(data: str, method: str, operator: str) -> list[float]:
    """Test losses minus those of the same method without compression, by seed."""
    pairs = zip(chosen(data, method, operator), chosen(data, method, _PLAIN), strict=True)
    return [own["test_loss"] - plain["test_loss"] for own, plain in pairs]


def ratio(runs: list[Item]) -> float:
    """How many times fewer bytes were sent."""
    return fmean(run["plain"] / run["sent"] for run in runs)


def groups() -> list[Group]:
    """LocalSGD before DiLoCo, uncompressed first."""
    found = {(run["data"], run["method"], run["operator"]) for run in results("local-sgd")["runs"]}
    return sorted(found, key=lambda own: (own[0], -len(own[1]), own[2] != _PLAIN, len(own[2])))


def label(operator: str) -> str:
    """The operator as a cell."""
    spec, with_, feedback = operator.partition(WITH)
    return "none" if operator == _PLAIN else f"`{spec}`" + (f"{with_}`{feedback}`" if with_ else "")


def runs_table() -> str:
    """Losses and bytes."""
    return markdown(show.local(results("local-sgd")["runs"]))


def losses() -> str:
    """Which rows can be told apart from uncompressed ones."""
    told = []
    for own in groups():
        data, method, operator = own
        if operator == _PLAIN:
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
    memory = gaps("mnist", "LocalSGD", f"{LOCAL_SGD_CODED} with ef14")
    return (
        "**Noise matters more than with an exchange in every step.** The error of an operator is in proportion to the"
        " compressed vector, and a change is as long as $H$ gradients; $H$ separate errors would average out. A memory"
        " (`feedback=\"ef14\"`) corrects the error; on MNIST with LocalSGD it made the loss lower than float32's in"
        f" {sum(gap < 0 for gap in memory)} of {len(memory)} seeds."
    )  # fmt: skip


def sizes() -> str:
    """Bytes against frames, and why small networks save less."""
    every = [run for own in groups() for run in chosen(*own) if WITH not in own[2]]
    off = max(abs(run["plain"] / run["sent"] / predicted_ratio(run) - 1) for run in every)
    text, image = (
        [ratio(chosen(data, method, LOCAL_SGD_CODED)) for method in ("LocalSGD", "DiLoCo")]
        for data in ("tinyshakespeare", "mnist")
    )
    exact = chosen("mnist", "LocalSGD", LOCAL_SGD_CODED)[0]
    share = exact["exact_elements"] / exact["elements"]
    return (
        f"**Bytes** are those of the operator's own frames within {100 * off:.1f} %; headers and rounded-up lengths"
        f" are the difference. `{LOCAL_SGD_CODED}` is at {span(text, 1)} times with the language model, and at"
        f" {span(image, 1)} with the small MNIST network, below large models: its changes have a wider range, since"
        f" some pixels are hardly ever inked, and the {100 * share:.1f} % of its values that travel exactly cost"
        f" {32 * share:.2f} bits of each value on average."
    )
