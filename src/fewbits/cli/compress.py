"""`fewbits compress`: an array to a frame, or each float tensor of a file to its own frame."""

import argparse

import fewbits
from fewbits.cli import container, files, tensor_files
from fewbits.cli.console import Parser, ProgressBar, about, print_json, say
from fewbits.cli.files import STANDARD, SUFFIX, Output, Pieces
from fewbits.cli.tensor_files import TensorFile
from fewbits.errors import EncodeError
from fewbits.rng import Rng
from fewbits.wire.frame import MAGIC

# Suffixes that users try, and the advice for each.
_ELSEWHERE = {
    MAGIC: "a fewbits frame already",
    b"PK\x03\x04": "a zip archive (.npz, .pt): save one array with numpy.save or safetensors",
    b"\x80": "a pickle, it seems, which is never read: use numpy.save or safetensors",
}


def add_options(parser: Parser) -> None:
    parser.add_example(
        "fewbits compress gradient.npy --operator natural --seed 7\n"
        "  cat gradient.npy | fewbits compress - > gradient.npy.fewbits"
    )
    add = parser.add_argument
    add("--operator", metavar="SPEC", default="natural",
        help="see 'fewbits operators' (default: natural)")  # fmt: skip
    add("--seed", type=int, metavar="N", help="for the same bytes every time")
    add("--nonfinite", choices=("raise", "carry"), default="raise",
        help="NaN and infinity are an error, or travel (default: raise)")  # fmt: skip
    files.add_paths(parser, ".npy or .safetensors file", "IN with .fewbits")


def run(options: argparse.Namespace) -> None:
    chosen = fewbits.operator(options.operator)
    default = STANDARD if options.input == STANDARD else options.input + SUFFIX
    output = Output.chosen(options.output or default, force=options.force)
    data = files.read(options.input)
    with about(options.input):
        tensors, compressed, values, pieces = _compressed(data, chosen, options)
    size = output.write(pieces)
    summary = {
        "in": options.input,
        "out": output.name,
        "operator": chosen.spec,
        "bytes_in": len(data),
        "bytes_of_values": values,
        "bytes_out": size,
        "ratio": values / size,
        "tensors": tensors,
        "compressed": compressed,
    }
    if options.json:
        print_json(summary, to_stderr=output.path is None)
    else:
        what = "" if tensors == compressed == 1 else f"{compressed} of {tensors} tensors, "
        say(
            f"{options.input} to {output.name} with {chosen}: {what}{values:,} bytes of "
            f"values to {size:,}, ratio {summary['ratio']:.2f}"
        )


def _compressed(
    data: memoryview, chosen: fewbits.Operator, options: argparse.Namespace
) -> tuple[int, int, int, Pieces]:
    """How many tensors, compressed ones, and bytes of values there are; the resulting bytes."""
    if data[: len(files.NPY_MAGIC)] == files.NPY_MAGIC:
        array = files.parse_npy(data)
        frame = fewbits.compress(array, chosen, seed=options.seed, nonfinite=options.nonfinite)
        return 1, 1, array.nbytes, [frame]
    if options.input.endswith(".safetensors") or tensor_files.looks_like(data):
        file = tensor_files.read(data)
        frames = _frames(file, chosen, options)
        values = sum(len(tensor.data) for tensor in file.tensors.values())
        pieces = tensor_files.write(container.joined(file, frames))
        return len(file.tensors), len(frames), values, pieces
    for start, hint in _ELSEWHERE.items():
        if data[: len(start)] == start:
            raise EncodeError(hint)
    raise EncodeError("neither a .npy nor a .safetensors file")


def _frames(
    file: TensorFile, chosen: fewbits.Operator, options: argparse.Namespace
) -> dict[str, bytes | memoryview]:
    if container.is_container(file):
        raise EncodeError("the file holds fewbits frames already")
    floats = {
        name: tensor for name, tensor in file.tensors.items() if tensor.dtype in container.FLOATS
    }
    frames: dict[str, bytes | memoryview] = {}
    with ProgressBar(
        "compressing", sum(len(tensor.data) for tensor in floats.values())
    ) as progress:
        for name, tensor in floats.items():
            with about(f"tensor {name!r}"):
                frames[name] = fewbits.compress(
                    container.to_array(tensor),
                    chosen,
                    seed=_tensor_seed(options.seed, name),
                    nonfinite=options.nonfinite,
                )
            progress.advance(len(tensor.data))
    return frames


def _tensor_seed(seed: int | None, name: str) -> int | None:
    """A seed for one tensor; with one seed for all, the errors of tensors would be alike."""
    if seed is None:
        return None
    return int.from_bytes(Rng.from_seed(seed).fork("tensor", name).key, "little")
