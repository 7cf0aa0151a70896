"""Our own codecs, called as a peer would be: a new frame, a new array, one thread."""

from functools import partial

import fewbits
from fewbits_lab.peers.peer import Peer, PeerInput

_SPECS = (
    "float16",
    "bfloat16",
    "natural",
    "natural:coder=rans",
    "standard-dithering:levels=127",
    "sparse-dithering:nu=0.5,rounding=subtractive",
    "sparse-dithering:rounding=subtractive",
    "sparse-dithering:nu=0.02,rounding=subtractive",
    "sparse-dithering:nu=0.0003,rounding=subtractive",
)
_SEED = 7


def peers(gradient: PeerInput) -> list[Peer]:
    """Some operators, cheap ones and small ones."""
    d = gradient.vector.size
    return [
        Peer(
            name=spec,
            encode=partial(fewbits.compress, operator=spec, seed=_SEED, threads=1),
            decode=partial(fewbits.decompress, threads=1),
            size=len,
            bias="unbiased" if fewbits.operator(spec).guarantee(d).unbiased else "biased",
            describes="all",
            checksum=True,
            note="refuses NaN; nonfinite='carry' keeps it",
        )
        for spec in _SPECS
    ]
