"""Packets of a switch, version 2: what workers send, with and without a key, and what comes back.

    python tests/golden/packets.py > tests/golden/packets-2.json

Never edit the file: a change of these bytes needs another version, and a file of its own.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fewbits import Rng
from fewbits.backend import switch as native_switch
from fewbits.reference import sealing
from fewbits.switch.keys import SwitchKey
from switches import packet

SECRET = SwitchKey("golden packets have this key")
KEY = Rng.from_seed(5).key
JOIN, CODES, LEAVE, ALIVE = 1, 5, 7, 9
FIELDS = {
    "join": (JOIN, {"count": 40}),
    "codes": (CODES, {"codes": bytes([1, 2, 130, 0, 61]), "round": 2, "key": KEY, "first": 3}),
    "leave": (LEAVE, {}),
    "alive": (ALIVE, {}),
}


def sent(secret: SwitchKey | None) -> dict[str, str]:
    """A packet of each kind that a worker sends."""
    common = {"job": 77, "worker": 1, "workers": 2, "sequence": 9}
    nonce = {"nonce": 0x0123456789ABCDEF} if secret else {}
    return {
        name: packet(kind, secret=secret, **common, **nonce, **own).hex()
        for name, (kind, own) in FIELDS.items()
    }


def answers() -> list[str]:
    """What an aggregator without a key answers to two workers who join, sum and leave."""
    state, met = native_switch.state(2, 4, 40, idle=2.0), native_switch.Statistics()
    found = []
    for kind, own in (FIELDS["join"], FIELDS["codes"], FIELDS["leave"]):
        for worker in (0, 1):
            given = {**own, "round": 0} if kind == CODES else own
            data = packet(kind, job=77, worker=worker, workers=2, sequence=1, **given)
            address = bytes([2, 0, 10, worker, *bytes(12)])
            found.append(native_switch.packet(state, data, address, 10**9, met)[1].hex())
    return found


def contents() -> dict[str, object]:
    data = bytes(range(256)) * 5
    return {
        "without a key": sent(None),
        "with a key": sent(SECRET),
        "answers": answers(),
        "tags": {str(n): sealing.tag(SECRET.root, data[:n]).hex() for n in (0, 1, 64, 513, 1280)},
        "subkeys": [sealing.subkey(SECRET.root, 77, 5, side).hex() for side in (0, 1)],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(contents(), indent=1) + "\n")
