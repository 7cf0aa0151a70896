"""Makes the text of README and docs about `demo`."""

from fewbits.train import table, verdict
from fewbits.train.references import PLAIN_DDP
from fewbits_lab.prose import one
from fewbits_lab.results import results
from fewbits_lab.studies.demo.show import times

_OURS = "natural:coder=rans"


def screen() -> str:
    """The last screen as it was."""
    return "\n".join(["```text", table.render(results("demo")).strip(), "```"])


def gain() -> str:
    """One sentence: speed and accuracy of the coded operator."""
    document = results("demo")
    ours, plain = (one(document["runs"], operator=name) for name in (_OURS, PLAIN_DDP))
    shares = ours["accuracy"], plain["accuracy"]
    margin = verdict.accuracy_margin(*shares, document["test_samples"])
    return (
        f"a step with `{_OURS}` is {times(document)[_OURS]:.1f} times as fast as plain DDP's, accuracy difference"
        f" {100 * (shares[0] - shares[1]):+.1f} ± {100 * margin:.1f} points"
    )
