"""Packets of version 2 stay as they are, in Python, in the reference and in native code."""

import json
from pathlib import Path

import pytest

from fewbits.backend import switch as native_switch
from fewbits.switch.protocol import PacketHeader
from golden import packets

STORED = json.loads((Path(packets.__file__).parent / "packets-2.json").read_text())


@pytest.mark.parametrize("part", STORED)
def test_packets_are_the_stored_ones(part: str, simd: str) -> None:
    assert packets.contents()[part] == STORED[part]


def test_native_tags_and_keys_are_the_stored_ones(simd: str) -> None:
    root, data = packets.SECRET.root, bytes(range(256)) * 5
    for count, tag in STORED["tags"].items():
        assert native_switch.tag(root, data[: int(count)]).hex() == tag
    found = [native_switch.subkey(root, 77, 5, side).hex() for side in (0, 1)]
    assert found == STORED["subkeys"]


@pytest.mark.parametrize("name", ["join", "leave", "alive"])
def test_workers_write_and_read_the_stored_packets(name: str) -> None:
    nonce = 0x0123456789ABCDEF
    key = native_switch.subkey(packets.SECRET.root, 77, nonce, 0)
    for part, number, own in (("without a key", 0, None), ("with a key", nonce, key)):
        stored = bytes.fromhex(STORED[part][name])
        kind, count = packets.FIELDS[name][0], 40 if name == "join" else 0
        header = PacketHeader(kind, 77, 2, 1, count=count, nonce=number, sequence=9)
        assert header.encode(own) == stored
        assert PacketHeader.decode(stored, own) == header
        assert PacketHeader.decode(stored[:-1] + bytes([stored[-1] ^ 1]), own) is None
