"""Tags of packets and keys of jobs: the native code has the bits of the standard library's."""

import hashlib
import os
import random
from pathlib import Path

import pytest

from fewbits.backend import switch as native
from fewbits.errors import SpecError
from fewbits.reference import sealing
from fewbits.switch.job import Aggregators, Switching
from fewbits.switch.keys import KEY_VARIABLE, SwitchKey, chosen_key
from fewbits.switch.protocol import PacketHeader, PacketKind

SECRET = "a key of enough bytes"
KEY = bytes(range(32))


@pytest.mark.usefixtures("simd")
def test_tags_are_the_references_at_every_length() -> None:
    data = random.Random(1).randbytes(3 * 512 + 70)
    for size in range(len(data) + 1):
        assert native.tag(KEY, data[:size]) == sealing.tag(KEY, data[:size])
    large = random.Random(2).randbytes(65_600)
    assert native.tag(KEY, large) == sealing.tag(KEY, large)


@pytest.mark.usefixtures("simd")
def test_every_bit_of_key_and_data_counts() -> None:
    data = bytes(1200)
    seen = {native.tag(KEY, data)}
    for place in range(0, 8 * len(data), 7):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        seen.add(native.tag(KEY, bytes(changed)))
    for place in range(256):
        key = bytearray(KEY)
        key[place // 8] ^= 1 << place % 8
        seen.add(native.tag(bytes(key), data))
    assert len(seen) == 1 + -(-8 * len(data) // 7) + 256


@pytest.mark.usefixtures("simd")
def test_keys_of_jobs_are_the_references() -> None:
    made = set()
    for job, nonce, side in ((1, 0, 0), (1, 0, 1), (0, 1, 0), (2**64 - 1, 2**63, 1)):
        own = native.subkey(KEY, job, nonce, side)
        assert own == sealing.subkey(KEY, job, nonce, side)
        made.add(own)
    assert len(made) == 4


def test_packets_without_codes_are_read_back_with_their_key_only() -> None:
    header = PacketHeader(PacketKind.ALIVE, 5, 2, 1, nonce=7, sequence=9)
    for key in (None, KEY):
        assert PacketHeader.decode(header.encode(key), key) == header
    assert PacketHeader.decode(header.encode(KEY), None) is None
    assert PacketHeader.decode(header.encode(None), KEY) is None
    assert PacketHeader.decode(header.encode(KEY), KEY[::-1]) is None


def test_a_key_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert chosen_key() is None
    file = tmp_path / "key"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    found = chosen_key(), chosen_key(key_file=file), chosen_key(SECRET), chosen_key(SECRET.encode())
    assert {own.root for own in found} == {hashlib.blake2s(SECRET.encode()).digest()}
    monkeypatch.setenv(KEY_VARIABLE, "short")
    with pytest.raises(SpecError, match=f"{KEY_VARIABLE}: a key has 16 to"):
        chosen_key()
    with pytest.raises(SpecError, match="not both"):
        chosen_key(SECRET, file)


def test_bytes_are_a_key_as_they_are() -> None:
    key = bytes(15) + b"\n"  # as one in 128 random keys ends
    assert SwitchKey(key).root == hashlib.blake2s(key).digest()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610])
def test_a_key_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "key"
    file.write_text(SECRET)
    file.chmod(mode)
    with pytest.raises(SpecError, match=f"mode {mode:04o}"):
        chosen_key(key_file=file)


def test_files_that_are_no_keys_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with pytest.raises(SpecError, match="cannot read"):
        chosen_key(key_file=file)
    for content in (b"", b"15 bytes here..\n", bytes(1 << 17)):
        file.write_bytes(content)
        file.chmod(0o600)
        with pytest.raises(SpecError, match=str(file)):
            chosen_key(key_file=file)


def test_nothing_shows_a_key() -> None:
    chosen = Aggregators(("127.0.0.1:9",), key=SECRET)
    switching = Switching.of("switch", chosen)
    root = SwitchKey(SECRET).root
    shown = [repr(chosen), str(chosen), repr(switching), str(switching), repr(chosen.key)]
    for text in shown:
        for part in (SECRET, repr(root), root.hex()):
            assert part not in text
    assert Aggregators(("127.0.0.1:9",), key=os.urandom(16)) == chosen
