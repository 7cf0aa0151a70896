"""Every page that has measured numbers, with what makes them."""

from benchmarks.rendered import (
    bias,
    choosing,
    coding,
    design,
    feedback,
    flower,
    fsdp,
    lab,
    localsgd,
    methods,
    readme,
    switch,
    when_not,
)
from benchmarks.rendered.blocks import Block

PAGES: dict[str, dict[str, Block]] = {
    "README.md": readme.BLOCKS,
    "docs/architecture.md": design.ARCHITECTURE,
    "docs/choosing.md": choosing.BLOCKS,
    "docs/coding.md": coding.BLOCKS,
    "docs/feedback.md": {**feedback.BLOCKS, **bias.BLOCKS},
    "docs/flower.md": flower.BLOCKS,
    "docs/fsdp.md": fsdp.BLOCKS,
    "docs/lab.md": lab.BLOCKS,
    "docs/localsgd.md": localsgd.BLOCKS,
    "docs/methods.md": methods.BLOCKS,
    "docs/switch.md": switch.BLOCKS,
    "docs/when-not.md": when_not.BLOCKS,
}
