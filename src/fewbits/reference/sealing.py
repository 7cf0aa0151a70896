"""The tags of a switch's packets and the keys of its jobs, by the standard library's BLAKE2s.

A tag is the digest of a tree of depth 2, as in BLAKE2sp. Leaf i of eight hashes the blocks of 64
bytes with the numbers i, i + 8, i + 16 and so on; the root hashes the leaves' digests. Every node
is keyed, and its digest has 16 bytes.
"""

import hashlib
import struct

_LEAVES, _BLOCK, _TAG_BYTES = 8, 64, 16


def tag(key: bytes, data: bytes) -> bytes:
    """The tag of `data` under a key of 32 bytes."""
    blocks = [data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK)]
    leaves = [b"".join(blocks[leaf::_LEAVES]) for leaf in range(_LEAVES)]
    digests = b"".join(_node(key, own, 0, leaf) for leaf, own in enumerate(leaves))
    return _node(key, digests, 1, 0)


def _node(key: bytes, data: bytes, depth: int, offset: int) -> bytes:
    return hashlib.blake2s(
        data,
        key=key,
        digest_size=_TAG_BYTES,
        inner_size=_TAG_BYTES,
        fanout=_LEAVES,
        depth=2,
        node_depth=depth,
        node_offset=offset,
        last_node=depth == 1 or offset == _LEAVES - 1,
    ).digest()


def subkey(root: bytes, job: int, nonce: int, side: int) -> bytes:
    """The key of one side's packets of one job on one aggregator."""
    about = struct.pack("<16sQQI", b"fewbits switch 2", job, nonce, side)
    return hashlib.blake2s(about, key=root).digest()
