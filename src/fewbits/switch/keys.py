"""The key that aggregators and workers share, and where it comes from."""

import hashlib
import os
import stat
from pathlib import Path

from fewbits.backend import switch as native
from fewbits.errors import SpecError

KEY_VARIABLE = "FEWBITS_SWITCH_KEY"
_LEAST, _MOST = 16, 1 << 16  # bytes
_UP, _DOWN = 0, 1


class SwitchKey:
    """A shared key; nothing shows its bytes.

    Text loses the end of its line, and so do files and the environment. Bytes count as they are.
    """

    __slots__ = ("root",)

    def __init__(self, secret: bytes | str) -> None:
        given = _line(secret.encode()) if isinstance(secret, str) else secret
        if not isinstance(given, bytes):
            raise SpecError(f"a key is bytes or text, got {type(secret).__name__}")
        if not _LEAST <= len(given) <= _MOST:
            raise SpecError(f"a key has {_LEAST} to {_MOST} bytes, this one has {len(given)}")
        self.root = hashlib.blake2s(given).digest()

    def subkeys(self, job: int, nonce: int) -> tuple[bytes, bytes]:
        """The keys of a job on an aggregator: of what workers send, and of what they receive."""
        return native.subkey(self.root, job, nonce, _UP), native.subkey(
            self.root, job, nonce, _DOWN
        )

    def __repr__(self) -> str:
        return "SwitchKey(...)"


def chosen_key(
    key: "SwitchKey | bytes | str | None" = None, key_file: str | Path | None = None
) -> SwitchKey | None:
    """The key that was given, that of the file, that of the environment, or None."""
    if key is not None and key_file is not None:
        raise SpecError("give a key or a file with it, not both")
    if key is not None:
        return key if isinstance(key, SwitchKey) else SwitchKey(key)
    if key_file is not None:
        return _read(Path(key_file))
    named = os.environ.get(KEY_VARIABLE)
    try:
        return None if named is None else SwitchKey(_line(os.fsencode(named)))
    except SpecError as error:
        raise SpecError(f"{KEY_VARIABLE}: {error}") from None


def _read(path: Path) -> SwitchKey:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            secret = file.read(_MOST + 3)
    except OSError as error:
        raise SpecError(f"cannot read the key file {path}: {error.strerror}") from error
    if mode & 0o077:
        raise SpecError(
            f"others may use the key file {path} (mode {mode:04o}): run chmod 600 on it"
        )
    try:
        return SwitchKey(_line(secret))
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def _line(secret: bytes) -> bytes:
    return secret.rstrip(b"\r\n")
