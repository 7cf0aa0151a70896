"""One setting after the other: links up, ranks through, links down, figures together."""

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fewbits.theory.cost import TrainingJob
from fewbits.train import references
from fewbits_lab.links import figures, names, planned
from fewbits_lab.links.launch import ContenderError, LaunchEvent, launch
from fewbits_lab.links.network import Network, Shaping
from fewbits_lab.links.setting import LinkSetting

LINK_MEASURED = "measured"

_Result = dict[str, Any]


class Laboratory:
    """Measures settings; a hook of torch's that fails once is not tried again."""

    def __init__(self, contenders: Sequence[str]) -> None:
        self.contenders = list(contenders)
        self._failed: dict[str, str] = {}

    def measure(self, setting: LinkSetting, tick: Callable[[], None]) -> _Result:
        """The result of one setting, `tick` at each step; a failing rank raises `PeerError`."""
        started, load = datetime.now(UTC), os.getloadavg()
        while True:
            running = [name for name in self.contenders if name not in self._failed]
            try:
                with Network(setting.ranks, setting.link) as network:
                    events = launch(network, setting, running, tick)
            except ContenderError as error:
                # Torch's chained hooks do not all work on gloo, and some take the process along.
                if error.contender is None or names.kind(error.contender) != names.CHAINED:
                    raise
                self._failed[error.contender] = error.reason
                continue
            about = {
                "started": started.isoformat(timespec="seconds"),
                "load_average": round(load[0], 2),
            }
            return about | self._together(setting, network.shaping, events)

    def _together(
        self, setting: LinkSetting, shaping: Shaping, events: list[LaunchEvent]
    ) -> _Result:
        rows = [self._row(name, events) for name in self.contenders]
        better_cast = compare(rows)
        compute = next((row for row in rows if row["contender"] == names.COMPUTE), None)
        seconds = compute["step_seconds"]["median"] if compute else None
        inputs, params = events[0]["inputs"], events[0]["parameters"]
        if seconds is not None:
            expected = planned.step_seconds(inputs, TrainingJob(params, setting.ranks, seconds))
            for row in rows:
                row["planned_seconds"] = expected.get(row["contender"])
        return {
            "params": params,
            "params_asked": setting.params,
            "ranks": setting.ranks,
            "rate_bits_per_second": setting.link.rate,
            "latency_seconds": setting.link.latency,
            "loss": setting.link.loss,
            "repeats": setting.repeats,
            "warm_up": setting.warm_up,
            "shaping": asdict(shaping) | {"text": str(shaping)},
            "machine": events[0]["machine"],
            "compute_seconds": seconds,
            "inputs": inputs,
            "copy_seconds": statistics.median(t for event in events for t in event["copies"]),
            "better_cast": better_cast,
            "contenders": rows,
        }

    def _row(self, name: str, events: list[LaunchEvent]) -> _Result:
        row: _Result = {"contender": name, "kind": names.kind(name), "status": LINK_MEASURED}
        if name in self._failed:
            return row | {"status": self._failed[name]}
        row |= figures.of_contender([event["contenders"][name] for event in events])
        if row["kind"] != names.OURS:
            row |= dict.fromkeys(("codec_seconds", "codec_cpu_seconds", "wire_seconds"))
            row["reported_bytes"] = None
        if name == names.COMPUTE:  # ranks that do not talk must differ
            row |= {"replicas_agree": None, "parameters_sha256": None}
        return row


def compare(rows: Sequence[_Result]) -> str | None:
    """Write into every row how many times as fast as plain and the better cast; name that cast."""
    measured = [row for row in rows if row["status"] == LINK_MEASURED]
    plain = next((row for row in measured if row["contender"] == references.PLAIN_DDP), None)
    casts = [row for row in measured if row["contender"] in names.CASTS]
    cast = min(casts, key=_median, default=None)
    for row in measured:
        for key, base in (("times_plain", plain), ("times_cast", cast)):
            row[key] = None
            if base is not None and row["contender"] != names.COMPUTE:
                row[key] = figures.ratio(base["samples"], row["samples"])._asdict()
    return cast["contender"] if cast else None


def _median(row: _Result) -> float:
    return float(row["step_seconds"]["median"])
