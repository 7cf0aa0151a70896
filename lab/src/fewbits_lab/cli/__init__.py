"""The `fewbits-lab` command: one module a command, imported only when it is called."""

from fewbits.cli.program import Program

__all__ = ["main"]

_COMMANDS = {
    "list": "the names and titles of the studies",
    "run": "compute some studies, and write JSON, CSV, SVG and index.html",
    "all": "compute all studies, and write JSON, CSV, SVG and index.html",
    "report": "the page of a folder of results, without computing anything",
    "link": "measure DDP steps on shaped links between network namespaces (root, Linux)",
    "coders": "compare entropy coders on the exponents of natural: size and speed",
    "federation": "count the bytes of a Flower federation on the wire",
}

main = Program(
    "fewbits-lab",
    "Make the evidence for what fewbits and its papers claim.",
    "fewbits_lab.cli",
    _COMMANDS,
).main
