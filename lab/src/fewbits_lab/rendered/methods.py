"""docs/methods.md, from `methods.py`, `regressions.py`, `federated_mnist.py`, `federated_scale.py`."""

from fewbits_lab.prose import paragraph
from fewbits_lab.results import results
from fewbits_lab.studies.oc_regressions.text import SPHERICAL, less


def spherical_verdict() -> str:
    """Spherical compression of small vectors, ours and as the paper counts it."""

    def both(what: str) -> list[str]:
        return [f"{less(k, 'breast cancer', SPHERICAL, what):.1f}" for k in ("ridge", "logistic")]

    whole, without = both("sections"), both("without_key")
    sizes = {
        (row["problem"], row["operator"]): row["ours"] for row in results("oc-convergence")["rows"]
    }
    paper = [sizes[k, "basic"] / sizes[k, SPHERICAL] for k in ("ridge", "logistic")]
    return paragraph(
        "**A small vector alone in a frame saves far less by spherical compression than in the paper**:",
        f"{whole[0]} times on ridge and {whole[1]} times on logistic regression with 30 values,",
        f"{without[0]} and {without[1]} times without the key. Besides the key they carry a table for the radii of one",
        "or two blocks and an empty section for searches that end early, 6 bytes each. Counted as the paper does, a",
        f"31-bit norm and a Rice code, it saves {paper[0]:.1f} times on the ridge and {paper[1]:.1f} times on the",
        "logistic regression of `oc-convergence`.",
    )  # fmt: skip
