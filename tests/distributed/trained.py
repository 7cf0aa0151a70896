"""`fewbits train` by ranks that are forked, one epoch unless more are asked for."""

import json
from typing import Any

from launch import Launcher

SEED = 3
SMALL = ("--json", "--epochs", "1", "--seed", str(SEED))


def train(launcher: Launcher, world: int, *arguments: str) -> dict[str, Any]:
    told = launcher.results("command", world, arguments=["train", *SMALL, *arguments])
    assert [own["code"] for own in told] == [0] * world
    printed, *others = (own["printed"] for own in told)
    assert not any(others)
    document: dict[str, Any] = json.loads(printed)
    return document
