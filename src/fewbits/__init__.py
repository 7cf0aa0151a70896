"""fewbits: compress gradients and model updates for distributed and federated training.

>>> import numpy as np, fewbits
>>> x = np.float32([1.0, -2.5, 0.0])
>>> frame = fewbits.compress(x, "natural", seed=7)
>>> y = fewbits.decompress(frame)
>>> y.shape, y.dtype
((3,), dtype('float32'))
"""

from fewbits.codec import FrameInfo, compress, decompress, inspect, largest_frame
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.errors import (
    DecodeError,
    DisagreementError,
    EncodeError,
    FewbitsError,
    LimitError,
    MissingExtraError,
    PeerError,
    SaturationWarning,
    SpecError,
    VersionError,
)
from fewbits.many import compress_many, decompress_many
from fewbits.registry import operator
from fewbits.rng import Rng

__version__: str

__all__ = [
    "DecodeError",
    "DisagreementError",
    "EncodeError",
    "FewbitsError",
    "FrameInfo",
    "Guarantee",
    "LimitError",
    "MissingExtraError",
    "Operator",
    "PeerError",
    "Rng",
    "SaturationWarning",
    "SpecError",
    "VersionError",
    "compress",
    "compress_many",
    "decompress",
    "decompress_many",
    "inspect",
    "largest_frame",
    "operator",
]


def __getattr__(name: str) -> str:
    """`__version__`, looked up only when it is asked for: importlib.metadata is slow to import."""
    if name == "__version__":
        from importlib.metadata import version

        return version("fewbits")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
