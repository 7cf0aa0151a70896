"""Makes the text of docs about `reliability`."""

from pathlib import Path

from fewbits_lab.prose import paragraph
from fewbits_lab.results import results
from fewbits_lab.studies.reliability import show
from fewbits_lab.studies.reliability.run import ROOT_OF_CHECKOUT, old
from fewbits_lab.tables import markdown

OLDER = "**older than the code**"


def figures_table() -> str:
    """One row for each stage that has run."""
    return markdown(show.stages(results("reliability")))


def figures_verdict() -> str:
    """How many stages have reached their full size, and which have failed."""
    stages = results("reliability")["stages"]
    full = sum(own["done"] >= own["full"] for own in stages.values())
    failed = sorted(name for name, own in stages.items() if own["failures"])
    said = (
        f"These failed: {', '.join(f'`{name}`' for name in failed)}." if failed else "None failed."
    )
    return paragraph(
        f"{len(stages)} stages have run on some commit, {full} of them at their full size. {said} "
        "A stage that is not in the table has not run."
    )


def survivors() -> str:
    """What happened to ranks and islands of which one was killed."""
    stages = results("reliability")["stages"]
    said = []
    for name, whom in (("survivors", "a rank of four"), ("islands", "an island of three")):
        own = stages.get(name)
        if own is None:
            continue
        failed = f"{own['failures']} failed" if own["failures"] else "none failed"
        said.append(
            f"{own['done']} trials of `kill -9` of {whom} (`soak.py {name}`), {failed}; the longest "
            f"wait of another one was {own['figures']['longest']:.1f} s."
        )
    return paragraph(" ".join(said) or "Not measured yet.")


def marked(page: str, root: Path = ROOT_OF_CHECKOUT) -> str:
    """The page with a mark on each row whose figure is older than the code that it covers.

    This is done when the docs are built and not when numbers are rendered: or else every change of
    code would make the page stale.
    """
    stale = old(results("reliability")["stages"], root)
    lines = page.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("|") and any(f"(`soak.py {name}`)" in line for name in stale):
            lines[number] = line.removesuffix(" |") + f" ({OLDER}) |"
    return "\n".join(lines)
