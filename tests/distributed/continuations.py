"""What ranks do that go on from golden checkpoints, or send what golden transcripts hold."""

import sys
from collections.abc import Callable
from pathlib import Path

from workers import World

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden import resumed, transcripts


def go_on(world: World, *, names: list[str], folder: str) -> None:
    """Load each checkpoint and take the next steps."""
    world.join()
    for name in names:
        world.result[name] = resumed.resumed(name, Path(folder) / name)


def record(world: World, *, names: list[str]) -> None:
    """What each of these runs sends."""
    world.join()
    for name in names:
        world.result[name] = transcripts.transcript(name)


def record_boxes(world: World, *, names: list[str], device: str = "cpu") -> None:
    """The boxes that each of these runs sends."""
    world.join()
    for name in names:
        world.result[name] = transcripts.boxed(name, device)


SCENARIOS: dict[str, Callable[..., None]] = {
    "go_on": go_on,
    "record": record,
    "record_boxes": record_boxes,
}
