"""`fewbits inspect`: what a frame, or each frame of a container, says about itself."""

import argparse
import math
from dataclasses import asdict
from typing import Any

import fewbits
from fewbits.cli import container, files, tensor_files
from fewbits.cli.console import Parser, about, print_json, table
from fewbits.errors import DecodeError
from fewbits.wire.frame import MAGIC


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits inspect gradient.npy.fewbits")
    parser.add_argument("input", metavar="FILE", help="frame or container, - for stdin")


def run(options: argparse.Namespace) -> None:
    """Check the file's structure and checksums and print its headers; no value is decoded."""
    data = files.read(options.input)
    with about(options.input):
        if data[: len(MAGIC)] == MAGIC:
            info = fewbits.inspect(data)
            if options.json:
                print_json({"kind": "frame", **_plain(info)})
            else:
                print(info)
            return
        rows, metadata = _rows(data)
    if options.json:
        shown = {"kind": "container", "bytes": len(data), "metadata": metadata, "tensors": rows}
        print_json(shown)
    else:
        _print_rows(rows, len(data))


def _plain(info: fewbits.FrameInfo) -> dict[str, Any]:
    """The fields for JSON; an empty vector has no bits per value."""
    fields = asdict(info)
    if math.isnan(info.bits_per_value):
        fields["bits_per_value"] = None
    return fields


def _rows(data: memoryview) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """One row a tensor, in order of name, and the metadata of the original file."""
    file = tensor_files.read(data) if tensor_files.looks_like(data) else None
    if file is None or not container.is_container(file):
        raise DecodeError("neither a fewbits frame nor a container of frames")
    frames, rest = container.separated(file)
    rows: list[dict[str, Any]] = []
    for name, tensor in sorted(file.tensors.items()):
        if name in frames:
            with about(f"tensor {name!r}"):
                own = {"kind": "frame", **_plain(fewbits.inspect(frames[name]))}
        else:
            own = {"kind": "raw", "dtype": tensor.dtype, "shape": tensor.shape}
            own["bytes"] = len(tensor.data)
        rows.append({"name": name, **own})
    return rows, dict(rest.metadata)


def _print_rows(rows: list[dict[str, Any]], size: int) -> None:
    cells = [
        (
            row["name"],
            row.get("operator", "(not compressed)"),
            row["dtype"],
            "×".join(map(str, row["shape"])) or "scalar",
            f"{row['bytes']:,}",
            f"{row['bits_per_value']:.3f}" if row.get("bits_per_value") is not None else "",
            f"{row['ratio']:.2f}" if "ratio" in row else "",
        )
        for row in rows
    ]
    titles = ("tensor", "operator", "dtype", "shape", "bytes", "bits/value", "ratio")
    print(table(titles, cells, right="bytes,bits/value,ratio"))
    frames = sum(row["kind"] == "frame" for row in rows)
    print(f"{len(rows)} tensors, {frames} compressed, {size:,} bytes in all")
