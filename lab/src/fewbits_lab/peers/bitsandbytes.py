"""bitsandbytes' blockwise quantisation on the processor: 8 bits, and 4 bits of two kinds."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from fewbits_lab.peers.peer import Peer, PeerInput, PeerMessage
from fewbits_lab.vectors import VectorValues

_BLOCK, _SMALL_BLOCK = 256, 64


def peers(_: PeerInput) -> list[Peer]:
    """Codes and a scale for each block; tables of levels are constants and not counted."""
    functional: Any = import_module("bitsandbytes.functional")

    def eight(x: torch.Tensor) -> PeerMessage:
        return functional.quantize_blockwise(x, blocksize=_BLOCK)

    def four(kind: str) -> Callable[[torch.Tensor], PeerMessage]:
        return lambda x: functional.quantize_4bit(x, blocksize=_SMALL_BLOCK, quant_type=kind)

    return [
        _peer(f"dynamic 8 bits, blocks of {_BLOCK}", eight, functional.dequantize_blockwise),
        _peer(f"nf4, blocks of {_SMALL_BLOCK}", four("nf4"), functional.dequantize_4bit),
        _peer(f"fp4, blocks of {_SMALL_BLOCK}", four("fp4"), functional.dequantize_4bit),
    ]


def _peer(name: str, quantize: Any, dequantize: Any) -> Peer:
    def decode(message: PeerMessage) -> VectorValues:
        values: VectorValues = dequantize(*message).numpy().reshape(-1)
        return values

    def size(message: PeerMessage) -> int:
        codes, state = message
        return int(codes.numel() * codes.element_size() + 4 * state.absmax.numel())

    return Peer(
        name=name,
        encode=lambda x: quantize(torch.from_numpy(x)),
        decode=decode,
        size=size,
        bias="biased",
        describes="nothing",
        note="made for weights and optimizer states in memory, not for messages",
    )
