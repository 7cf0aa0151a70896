"""The codecs inside torch's communication hooks."""

import math
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch

from fewbits_lab.peers.peer import Peer, PeerInput, PeerMessage
from fewbits_lab.vectors import VectorValues

_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks"
_powers: Any = import_module(f"{_HOOKS}.powerSGD_hook")  # their functions have no types
_eight_bits: Any = import_module(f"{_HOOKS}.quantization_hooks")
_RANKS = (1, 4)
_CHANNEL = 512  # values, as the hook has it
_SEED = 0  # of PowerSGD's first factors, as the hook has it


def peers(gradient: PeerInput) -> list[Peer]:
    """Casts, quantisation to 8 bits, PowerSGD."""
    casts = [
        Peer(name, partial(_cast, dtype=dtype), _uncast, _bytes, "biased", "nothing")
        for name, dtype in (("fp16_compress_hook", torch.float16),
                            ("bf16_compress_hook", torch.bfloat16))
    ]  # fmt: skip
    whole = Peer(
        "quantization_pertensor_hook", _per_tensor, _from_tensor, _bytes, "biased", "nothing",
        note="the hook gathers all ranks' bytes, n - 1 times these",
    )  # fmt: skip
    rows = Peer(
        "quantization_perchannel_hook", _per_channel,
        partial(_from_channel, d=gradient.vector.size), _bytes, "biased", "nothing",
        note="the hook gathers all ranks' bytes, n - 1 times these",
    )  # fmt: skip
    return [*casts, whole, rows, *(_power(gradient, rank) for rank in _RANKS)]


def _bytes(message: PeerMessage) -> int:
    """Bytes of all tensors in the message, with 4 or 8 for a number."""
    if isinstance(message, torch.Tensor):
        return message.numel() * message.element_size()
    return sum(map(_bytes, message))


def _cast(x: VectorValues, *, dtype: torch.dtype) -> PeerMessage:
    return torch.from_numpy(x).to(dtype)


def _uncast(message: PeerMessage) -> VectorValues:
    values: VectorValues = message.to(torch.float32).numpy()
    return values


def _per_tensor(x: VectorValues) -> PeerMessage:
    tensor = torch.from_numpy(x)
    observer = torch.ao.quantization.MinMaxObserver()
    observer(tensor)
    scale, zero = observer.calculate_qparams()
    return _eight_bits._quantize_per_tensor_backend(tensor, scale, zero), scale, zero


def _from_tensor(message: PeerMessage) -> VectorValues:
    values: VectorValues = _eight_bits._dequantize_per_tensor_backend(*message).numpy()
    return values


def _per_channel(x: VectorValues) -> PeerMessage:
    padded = np.zeros(-(-x.size // _CHANNEL) * _CHANNEL, np.float32)
    padded[: x.size] = x
    tensor = torch.from_numpy(padded).view(-1, _CHANNEL)
    observer = torch.ao.quantization.PerChannelMinMaxObserver()
    observer(tensor)
    scale, zero = observer.calculate_qparams()
    return _eight_bits._quantize_per_channel_backend(tensor, scale, zero), scale, zero


def _from_channel(message: PeerMessage, *, d: int) -> VectorValues:
    values: VectorValues = _eight_bits._dequantize_per_channel_backend(*message).numpy()
    return values.reshape(-1)[:d]


def _power(gradient: PeerInput, rank: int) -> Peer:
    """One step of the power iteration on every matrix; what is no matrix goes as it is."""
    return Peer(
        f"powerSGD_hook, rank {rank}",
        partial(_factors, shapes=gradient.shapes, rank=rank),
        _product,
        _bytes,
        "biased",
        "nothing",
        note="without its error feedback and warm start, which it relies on",
    )


def _factors(x: VectorValues, *, shapes: tuple[tuple[int, ...], ...], rank: int) -> PeerMessage:
    sent: list[tuple[torch.Tensor, ...]] = []
    at = 0
    draws = torch.Generator().manual_seed(_SEED)
    for shape in shapes:
        size = math.prod(shape)
        own = torch.from_numpy(x[at : at + size])
        at += size
        if not _is_low_rank(shape, rank):
            sent.append((own,))
            continue
        matrix = own.view(1, shape[0], -1)
        right = torch.randn(1, matrix.shape[2], rank, generator=draws)
        _powers._orthogonalize(right)
        left = torch.bmm(matrix, right)
        _powers._orthogonalize(left)
        sent.append((left, torch.bmm(matrix.transpose(1, 2), left)))
    return sent


def _product(message: PeerMessage) -> VectorValues:
    parts: list[Any] = [
        own[0] if len(own) == 1 else torch.bmm(own[0], own[1].transpose(1, 2)).reshape(-1)
        for own in message
    ]
    values: VectorValues = torch.cat(parts).numpy()
    return values


def _is_low_rank(shape: tuple[int, ...], rank: int) -> bool:
    """The hook's rule: a matrix whose two factors are smaller than itself."""
    if len(shape) < 2:
        return False
    rows, columns = shape[0], math.prod(shape[1:])
    return min(rows, columns) >= rank and (rows + columns) * rank < rows * columns
