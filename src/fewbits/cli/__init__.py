"""The `fewbits` command: one module a command, imported only when it is called."""

from fewbits.cli.program import Program

__all__ = ["main"]

COMMANDS = {
    "train": "train a model with several workers, once for each operator, and compare",
    "compress": "compress a .npy array or the float tensors of a .safetensors file",
    "decompress": "turn what 'fewbits compress' wrote back into .npy or .safetensors",
    "inspect": "show operator, shape, bytes and bits per value of a compressed file",
    "operators": "list the operators with their parameters, guarantees and measured sizes",
    "plan": "predict whether compression pays on a link, and with which operator",
    "bounds": "measured bits and errors of the operators against the lower bound",
    "report": "the page of a result of fewbits train",
    "bench": "measure how fast the operators are, against a copy of the same memory",
    "verify": "compare a device with the CPU, bit for bit, and write a report to share",
    "launch": "start workers that go on without a lost one, and start it again",
    "switch": "add up gradients for workers that train with --collective switch",
}

PROGRAM = Program("fewbits", "Compress gradients and model updates.", "fewbits.cli", COMMANDS)
main = PROGRAM.main
