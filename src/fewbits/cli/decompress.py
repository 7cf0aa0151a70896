"""`fewbits decompress`: a frame to a `.npy` array, a container of frames to a safetensors file."""

import argparse

import fewbits
from fewbits.cli import container, files, tensor_files
from fewbits.cli.console import Parser, ProgressBar, about, print_json, say
from fewbits.cli.files import STANDARD, SUFFIX, Output, Pieces
from fewbits.cli.tensor_files import TensorFile
from fewbits.codec import MAX_ELEMENTS
from fewbits.errors import DecodeError, SpecError
from fewbits.wire.frame import MAGIC

_SAFETENSORS = ".safetensors"
_ONLY_TENSOR = "tensor"  # the name in a safetensors file made from a single frame


def add_options(parser: Parser) -> None:
    parser.add_example(
        "fewbits decompress gradient.npy.fewbits\n"
        "  fewbits decompress - < gradient.npy.fewbits > gradient.npy"
    )
    parser.add_argument("--max-elements", type=int, default=MAX_ELEMENTS, metavar="N",
        help=f"refuse files that claim more values in all (default: {MAX_ELEMENTS})")  # fmt: skip
    files.add_paths(parser, "frame or container", "IN without .fewbits")


def run(options: argparse.Namespace) -> None:
    if not 0 <= options.max_elements < 2**63:
        raise SpecError(f"--max-elements must be from 0 to 2^63 - 1, got {options.max_elements}")
    data = files.read(options.input)
    is_frame = data[: len(MAGIC)] == MAGIC
    text = options.output or _default_output(options.input, is_frame=is_frame)
    output = Output.chosen(text, force=options.force)
    with about(options.input):
        if is_frame:
            tensors, pieces = 1, _array(data, text, options.max_elements)
        else:
            file = _tensors(data, text, options.max_elements)
            tensors, pieces = len(file.tensors), tensor_files.write(file)
    size = output.write(pieces)
    if options.json:
        summary = {"in": options.input, "out": output.name, "bytes_in": len(data)}
        summary |= {"bytes_out": size, "tensors": tensors}
        print_json(summary, to_stderr=output.path is None)
    else:
        say(f"{options.input} to {output.name}: {len(data):,} bytes to {size:,}")


def _default_output(text: str, *, is_frame: bool) -> str:
    if text == STANDARD:
        return STANDARD
    if text.endswith(SUFFIX) and text != SUFFIX:
        return text.removesuffix(SUFFIX)
    return text + (".npy" if is_frame else _SAFETENSORS)


def _array(data: memoryview, output: str, max_elements: int) -> Pieces:
    if output.endswith(_SAFETENSORS):
        array = fewbits.decompress(data, max_elements=max_elements)
        return tensor_files.write(TensorFile({_ONLY_TENSOR: container.from_array(array)}))
    if fewbits.inspect(data, max_elements=max_elements).dtype == "bfloat16":
        raise SpecError(
            f"the frame holds bfloat16, which .npy cannot: name an OUT that ends in {_SAFETENSORS}"
        )
    return files.npy_pieces(fewbits.decompress(data, max_elements=max_elements))


def _tensors(data: memoryview, output: str, max_elements: int) -> TensorFile:
    """The safetensors file that was compressed, with decoded tensors in place of the frames."""
    file = tensor_files.read(data) if tensor_files.looks_like(data) else None
    if file is None or not container.is_container(file):
        raise DecodeError("neither a fewbits frame nor a container of frames")
    if output.endswith(".npy"):
        raise SpecError(f"the file holds named tensors: OUT must end in {_SAFETENSORS}")
    frames, rest = container.separated(file)
    tensors = dict(rest.tensors)
    opened = container.opened(frames, max_elements)
    with ProgressBar("decompressing", sum(map(len, frames.values()))) as progress:
        for name, frame in opened.items():
            with about(f"tensor {name!r}"):
                array = frame.new()
            tensors[name] = container.from_array(array)
            progress.advance(frame.data.size)
    return TensorFile(tensors, rest.metadata)
