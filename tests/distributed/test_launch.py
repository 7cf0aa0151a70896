"""What the launcher says of a rank is of that rank."""

import json
import queue
from types import SimpleNamespace
from typing import Any

from launch import Template


def heard(*events: dict[str, int]) -> Any:
    """A template that has told these events."""
    template: Any = Template.__new__(Template)
    template.ended, template._pids = {}, queue.SimpleQueue()
    template._process = SimpleNamespace(stdout=[json.dumps(event) for event in events])
    template._read()
    return template


def test_a_new_rank_has_not_ended_as_an_earlier_one_with_its_number() -> None:
    earlier, end, new = {"pid": 7}, {"pid": 7, "status": -9}, {"pid": 7}
    assert heard(earlier, end).ended[7][0] == -9
    assert heard(earlier, end, new).ended == {}
    assert heard(earlier, end, new, {"pid": 7, "status": 0}).ended[7][0] == 0
