"""Small checkpoints of old versions, and what two more steps from each of them lead to.

`python tests/golden/resumed.py` makes what is missing, with the fewbits of the interpreter that
runs it, and never overwrites. The files in `checkpoints` are states of version 1 and were made by
commit d55dedf, those in `checkpoints-2` are states of version 2. A gradient here is the model's
input and every learning rate is a power of two, so no machine rounds apart. Digests of states are
of the words that the loaded file has: what is saved now is told in them, which changes no array.

With arguments the program is one rank that saves or resumes a case. It uses public names
only, so that interpreters of different versions can be ranks of the same run.
"""

import hashlib
import json
import lzma
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors.numpy import load
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import fewbits.ddp
import fewbits.fsdp
import fewbits.localsgd
from fewbits.backend import crc32c

FOLDERS = {1: Path(__file__).with_name("checkpoints"), 2: Path(__file__).with_name("checkpoints-2")}
NOW = 2
EXPECTED = "expected.json"
RANKS, MORE = 2, 2
SHAPES = ((24, 9), (31,), (10, 13))
WIDE = ((65_536 + 300,), (7, 5))  # more than one unit
TOP = "top-k:fraction=0.1|natural"


@dataclass(frozen=True)
class Case:
    """A run: which adapter, its operator and options, and after how many steps it was saved."""

    adapter: str
    operator: str
    options: dict[str, Any] = field(default_factory=dict)
    steps: int = 3
    shapes: tuple[tuple[int, ...], ...] = SHAPES
    dtype: str = "float32"


CASES = {
    "ddp-natural": Case("ddp", "natural"),
    "ddp-tiny": Case("ddp", "tiny"),
    "ddp-ef14": Case("ddp", TOP, {"feedback": "ef14:momentum=0.9", "scheme": "star"}),
    "ddp-ef21": Case("ddp", "natural:coder=rans", {"feedback": "ef21", "scheme": "gather"}),
    "ddp-diana": Case("ddp", "natural", {"feedback": "diana", "seed": 5}),
    "ddp-ef-bv": Case("ddp", TOP, {"feedback": "ef-bv", "nonfinite": "skip"}),
    "ddp-units": Case("ddp", TOP, {"feedback": "ef14"}, shapes=WIDE),
    "ddp-auto": Case("ddp", "auto", steps=60),
    "fsdp-natural": Case("fsdp", "natural"),
    "fsdp-ef14": Case("fsdp", TOP, {"feedback": "ef14"}),
    "local-sgd": Case("localsgd", "natural", {"local_steps": 3}, steps=6),
    "local-nesterov": Case(
        "localsgd", "natural:coder=rans", {"local_steps": 3, "outer": "nesterov"}, steps=7
    ),
    "local-overlap": Case(
        "localsgd", "natural", {"local_steps": 2, "outer": "nesterov", "overlap": True}, steps=5
    ),
    "local-ef14": Case("localsgd", TOP, {"local_steps": 2, "feedback": "ef14"}, steps=4),
}

OF_VERSION = {
    1: list(CASES),
    2: ["ddp-auto", "ddp-ef14", "ddp-ef21", "fsdp-ef14", "local-ef14", "local-overlap"],
}
WHOLE = {name: case for name, case in CASES.items() if case.operator != "auto"} | {
    "ddp-rans": Case("ddp", "natural:coder=rans"),
    "ddp-star": Case("ddp", "natural", {"scheme": "star"}),
    "ddp-gather": Case("ddp", "natural", {"scheme": "gather"}),
    "ddp-rans-gather": Case("ddp", "natural:coder=rans", {"scheme": "gather"}),
    "ddp-dithering": Case("ddp", "qsgd", {"nonfinite": "raise"}),
    "ddp-sparse": Case("ddp", "sparse-dithering", {"feedback": "ef14"}),
    "ddp-rotated": Case("ddp", "hadamard|standard-dithering"),
    "ddp-rand-k": Case("ddp", "rand-k|natural"),
    "ddp-spherical": Case("ddp", "spherical", {"feedback": "ef14"}),
    "ddp-sign": Case("ddp", "sign", {"feedback": "ef14"}),
    "ddp-exact": Case("ddp", "natural", {"policy": None}),
    "ddp-double": Case("ddp", "natural", dtype="float64"),
    "ddp-double-rans": Case("ddp", "natural:coder=rans", {"feedback": "ef21"}, dtype="float64"),
    "ddp-bfloat16": Case("ddp", "natural:coder=rans", dtype="bfloat16"),
    "ddp-bfloat16-qsgd": Case("ddp", "qsgd", dtype="bfloat16"),
    "ddp-float16": Case("ddp", TOP, {"feedback": "ef14"}, dtype="float16"),
}
"""Runs without a break: what they send depends on nothing but their gradients."""
STEPS = 6


class Weights(torch.nn.Module):
    """A model whose gradient is its input."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        dtype = getattr(torch, case.dtype)
        self.weights = torch.nn.ParameterList(torch.zeros(s, dtype=dtype) for s in case.shapes)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        products = [(own * x).sum() for own, x in zip(self.weights, inputs, strict=True)]
        return torch.stack(products).sum().float()


def gradients(case: Case, rank: int, step: int) -> list[torch.Tensor]:
    """What the ranks' steps begin with: whole numbers times powers of two."""
    found = []
    for index, shape in enumerate(case.shapes):
        source = np.random.default_rng([rank, step, index])
        values = source.integers(-(2**20), 2**20, shape).astype(np.float32)
        values = np.ldexp(values, -source.integers(18, 28, shape))
        if values.size > 60_000:
            values[200:-100] = 0  # small once it is packed
        found.append(torch.from_numpy(values).to(getattr(torch, case.dtype)))
    return found


def everything(name: str, shape: tuple[int, ...]) -> None:
    """The policy that compresses every tensor."""


class Run:
    """One rank of a case."""

    def __init__(self, case: Case) -> None:
        self.case, self.rank = case, dist.get_rank()
        self.net = Weights(case)
        self.model: Any = self.net
        options = {"policy": everything, **case.options}
        if case.adapter == "ddp":
            self.model = DistributedDataParallel(self.net, bucket_cap_mb=0.001)
            self.state: Any = fewbits.ddp.attach(self.model, case.operator, **options)
        elif case.adapter == "fsdp":
            fully_shard(self.net, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
            self.state = fewbits.fsdp.attach(self.net, case.operator, **options)
        else:
            self.state = fewbits.localsgd.attach(self.net, case.operator, **options)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.125)
        self.loaded: np.ndarray | None = None

    def train(self, first: int, last: int) -> None:
        """The steps from one to another, whatever the model is at."""
        for step in range(first, last):
            self.optimizer.zero_grad()
            self.model(*gradients(self.case, self.rank, step)).backward()
            self.optimizer.step()
            if self.case.adapter == "localsgd":
                self.state.step()

    def parameters(self) -> Iterator[torch.Tensor]:
        """What this rank holds of the model."""
        for parameter in self.net.parameters():
            own = parameter.detach()
            yield own.to_local() if hasattr(own, "to_local") else own

    def digest(self) -> str:
        """SHA-256 of this rank's parameters."""
        hasher = hashlib.sha256()
        for own in self.parameters():
            hasher.update(own.contiguous().view(torch.uint8).numpy().tobytes())
        return hasher.hexdigest()

    def saved(self) -> str:
        """SHA-256 of the state that this rank would save now."""
        hasher, state = hashlib.sha256(), dict(self.state.state_dict())
        if self.loaded is not None:
            state["fewbits"] = retold(state, self.loaded)
        for name, array in sorted(state.items()):
            hasher.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
        return hasher.hexdigest()

    def save(self, folder: Path) -> None:
        """The adapter's own file, and this rank's parameters beside it."""
        self.state.save(folder)
        content = b"".join(own.contiguous().numpy().tobytes() for own in self.parameters())
        (folder / f"parameters-{self.rank}").write_bytes(content)

    def load(self, folder: Path) -> None:
        """What `save` saved."""
        content = np.fromfile(folder / f"parameters-{self.rank}", np.float32)
        for own in self.parameters():
            mine, content = content[: own.numel()], content[own.numel() :]
            own.copy_(torch.from_numpy(mine.copy()).view(own.shape))
        self.state.load(folder)
        path = folder / f"rank-{self.rank}-of-{dist.get_world_size()}.safetensors"
        self.loaded = load(path.read_bytes())["fewbits"]

    def close(self) -> None:
        """End, together with the others."""
        self.state.close()
        dist.barrier()


def retold(state: dict[str, np.ndarray], then: np.ndarray) -> np.ndarray:
    """What a state tells of its run, in the words of `then`, with its own step and checksum."""
    now, about = json.loads(state["fewbits"].tobytes()), json.loads(then.tobytes())
    if now["version"] == about["version"]:
        return state["fewbits"]
    about["step"] = now["step"]
    del about["crc"]
    crc = crc32c(np.frombuffer(json.dumps(about).encode(), np.uint8))
    for key, array in sorted(state.items()):
        if key != "fewbits":
            text = f"{key} {array.dtype} {array.shape}".encode()
            crc = crc32c(np.ascontiguousarray(array), crc32c(np.frombuffer(text, np.uint8), crc))
    return np.frombuffer(json.dumps(about | {"crc": crc}).encode(), np.uint8)


def saved(name: str, folder: Path) -> None:
    """Train a case and save it, on one rank."""
    run = Run(CASES[name])
    run.train(0, run.case.steps)
    run.save(folder)
    run.close()


def resumed(name: str, folder: Path) -> dict[str, str]:
    """Go on from a checkpoint on one rank: digests of what was loaded and of what comes after."""
    run = Run(CASES[name])
    run.load(folder)
    told = {"loaded": run.saved()}
    run.train(run.case.steps, run.case.steps + MORE)
    if run.case.adapter == "localsgd":
        run.state.sync()
    told |= {"parameters": run.digest(), "state": run.saved()}
    run.close()
    return told


def trained(name: str, **options: Any) -> dict[str, str]:
    """A run without a break, with more options."""
    case = WHOLE[name]
    run = Run(replace(case, options=case.options | options))
    run.train(0, STEPS)
    if run.case.adapter == "localsgd":
        run.state.sync()
    told = {"parameters": run.digest()}
    run.close()
    return told


def unpacked(name: str, folder: Path, version: int) -> Path:
    """The files of a checkpoint, in a folder of their own."""
    with tarfile.open(FOLDERS[version] / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def join(store: str, rank: int, ranks: int) -> None:
    """Make the default process group, over a file instead of a port."""
    shared = dist.FileStore(store, ranks)
    wait = timedelta(seconds=60)
    dist.init_process_group("gloo", store=shared, rank=rank, world_size=ranks, timeout=wait)


def ranks(interpreters: Sequence[str], deed: str, name: str, folder: Path) -> list[Any]:
    """What each of the ranks tells, each of which is a process of its interpreter."""
    with tempfile.TemporaryDirectory() as place:
        order = [str(Path(__file__).resolve()), deed, name, f"{place}/store", str(folder)]
        started = [
            subprocess.Popen(
                [each, *order, str(rank), str(len(interpreters))], stdout=subprocess.PIPE
            )
            for rank, each in enumerate(interpreters)
        ]
        told = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"a rank of {name} failed: {[p.returncode for p in started]}")
    return [json.loads(text) for text in told]


def main() -> None:
    """Make the checkpoints of now that are missing, and say what was made."""
    folder = FOLDERS[NOW]
    known = folder / EXPECTED
    expected = json.loads(known.read_text()) if known.exists() else {}
    made = []
    for name in OF_VERSION[NOW]:
        packed = folder / f"{name}.tar.xz"
        if packed.exists() or name in expected:
            continue
        with tempfile.TemporaryDirectory() as place:
            ranks([sys.executable] * RANKS, "save", name, Path(place))
            _pack(packed, Path(place))
            expected[name] = ranks([sys.executable] * RANKS, "resume", name, Path(place))
        made.append(name)
        known.write_text(json.dumps(expected, indent=2) + "\n")
    sys.stdout.write(f"{len(made)} checkpoints written {' '.join(made)}\n")


def _pack(path: Path, folder: Path) -> None:
    """One file, without names and times of where it was made."""

    def bare(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.mtime = info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    with lzma.open(path, "wb", preset=9) as file, tarfile.open(fileobj=file, mode="w") as archive:
        for each in sorted(folder.iterdir()):
            archive.add(each, each.name, filter=bare)


def _rank(deed: str, name: str, store: str, folder: str, rank: str, ranks: str) -> None:
    join(store, int(rank), int(ranks))
    told: Any = None
    if deed == "save":
        saved(name, Path(folder))
    else:
        told = resumed(name, Path(folder))
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    torch.set_num_threads(1)
    _rank(*sys.argv[1:]) if sys.argv[1:] else main()
