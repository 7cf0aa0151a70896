"""Golden transcripts: all bytes that ranks have sent each other, as lengths and digests.

`python tests/golden/transcripts.py` makes what is missing, with the fewbits of the interpreter that
runs it, and never overwrites. Those in `transcripts-3.json` are of version 3 of the ranks' headers:
ranks of that version understand each other as long as they do not change. Those in
`transcripts.json` were made by commit d55dedf, of version 1, and those in `transcripts-2.json` of
version 2. Their headers, tag 0, are history; all other streams have payloads only, which hold to
this day where version 3 has no other sections, and what ranks ended with holds for all. Those in
`transcripts-4.json` are of aligned boxes, version 4; their runs end as those of version 3 do.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))  # where it is a program

from golden import resumed

FIRST = Path(__file__).with_suffix(".json")
SECOND = Path(__file__).with_name("transcripts-2.json")
FILE = Path(__file__).with_name("transcripts-3.json")
BOXES = Path(__file__).with_name("transcripts-4.json")
BOXED = (
    "ddp-natural", "ddp-tiny", "ddp-diana", "ddp-ef-bv", "ddp-units", "ddp-dithering", "ddp-double",
    "ddp-bfloat16-qsgd", "ddp-float16", "ddp-exact", "fsdp-natural", "fsdp-ef14", "local-sgd",
    "local-overlap", "local-ef14",
)  # fmt: skip
"""Runs that are made with aligned boxes too."""
HEADERS = " tag 0"
_BOXES = "boxes of "
Transcript = dict[str, list[Any]]
"""For every receiver and tag the lengths of all messages in their order, and a digest of all."""


@contextmanager
def recorded() -> Iterator[Transcript]:
    """What this process sends from rank to rank until the end of the block."""
    told: Transcript = {}
    hashers: dict[str, Any] = {}
    send = dist.isend

    def isend(tensor: torch.Tensor, dst: int, *, tag: int = 0, **options: Any) -> Any:
        stream = f"to {dst} tag {tag}"
        content = tensor.numpy().tobytes()
        told.setdefault(stream, []).append(len(content))
        hashers.setdefault(stream, hashlib.sha256()).update(content)
        return send(tensor, dst, tag=tag, **options)

    dist.isend = isend
    try:
        yield told
    finally:
        dist.isend = send
        for stream, hasher in hashers.items():
            told[stream].append(hasher.hexdigest())


@contextmanager
def boxes_recorded() -> Iterator[Transcript]:
    """The boxes that this process sends until the end of the block, in their order."""
    told: Transcript = {}
    name = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"
    swap, gather = dist.all_to_all_single, getattr(dist, name)

    def note(kind: str, content: torch.Tensor, sizes: Sequence[int]) -> None:
        if content.dtype == torch.uint8:  # FSDP gathers parameters
            digest = hashlib.sha256(content.numpy().tobytes()).hexdigest()
            told.setdefault(kind, []).append([*sizes, digest[:32]])

    def swapped(
        there: torch.Tensor, own: torch.Tensor, come: Any, sizes: Any, **options: Any
    ) -> Any:
        note("swapped", own, sizes)
        return swap(there, own, come, sizes, **options)

    def gathered(there: torch.Tensor, own: torch.Tensor, *rest: Any, **options: Any) -> Any:
        note("gathered", own, [own.numel()])
        return gather(there, own, *rest, **options)

    dist.all_to_all_single = swapped
    setattr(dist, name, gathered)
    try:
        yield told
    finally:
        dist.all_to_all_single = swap
        setattr(dist, name, gather)


def payloads(told: dict[str, Any]) -> dict[str, Any]:
    """A transcript without the streams that headers are in."""
    return {stream: own for stream, own in told.items() if not stream.endswith(HEADERS)}


def results(told: dict[str, Any]) -> dict[str, Any]:
    """What a rank ended with."""
    return {name: own for name, own in told.items() if not name.startswith("to ")}


def is_revised(operator: str) -> bool:
    """Whether version 3 has other sections of an operator than the versions before it."""
    revised = ("top-k", "coder=rans", "sparse-dithering", "spherical")
    return operator == "tiny" or any(text in operator for text in revised)


def transcript(name: str) -> dict[str, Any]:
    """What this rank sends in a run, and the parameters that it ends with."""
    with recorded() as told:
        result = resumed.trained(name)
    return {**result, **dict(sorted(told.items()))}


def boxed(name: str, device: str = "cpu") -> dict[str, Any]:
    """The boxes that this rank sends in a run, and the parameters that it ends with."""
    with boxes_recorded() as told:
        result = resumed.trained(name, device=device)
    return {**result, **told}


def together(interpreters: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """What each rank tells of these runs; every rank is a process of its interpreter."""
    with tempfile.TemporaryDirectory() as place:
        size = str(len(interpreters))
        ranks = [
            subprocess.Popen(
                [each, "-W", "ignore", __file__, str(rank), size, f"{place}/store", *names],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for rank, each in enumerate(interpreters)
        ]
        told = [rank.communicate() for rank in ranks]
    if any(rank.returncode for rank in ranks):
        ends = [(rank.returncode, said[-300:]) for rank, (_, said) in zip(ranks, told, strict=True)]
        raise RuntimeError(f"ranks ended with {ends}", ends)
    return [json.loads(text) for text, _ in told]


def main() -> None:
    """Make what is missing, and say what was made."""
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    missing = [name for name in resumed.WHOLE if name not in known]
    told = together([sys.executable] * resumed.RANKS, missing)
    known |= {name: [each[name] for each in told] for name in missing}
    FILE.write_text(_text(known))
    boxes = json.loads(BOXES.read_text()) if BOXES.exists() else {}
    absent = [name for name in BOXED if name not in boxes]
    told = together([sys.executable] * resumed.RANKS, [f"{_BOXES}{name}" for name in absent])
    boxes |= {name: [each[f"{_BOXES}{name}"] for each in told] for name in absent}
    BOXES.write_text(_text(boxes))
    written = *missing, *(f"{_BOXES}{name}" for name in absent)
    sys.stdout.write(f"{len(written)} transcripts written {' '.join(written)}\n")


def _told(name: str) -> dict[str, Any]:
    return boxed(name.removeprefix(_BOXES)) if name.startswith(_BOXES) else transcript(name)


def _text(known: dict[str, Any]) -> str:
    """A line for each rank."""
    cases = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(rank) for rank in known[name]) + "\n]"
        for name in known
    ]
    return "{\n" + ",\n".join(cases) + "\n}\n"


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:]:
        rank, size, store, *names = sys.argv[1:]
        resumed.join(store, int(rank), int(size))
        sys.stdout.write(json.dumps({name: _told(name) for name in names}))
    else:
        main()
